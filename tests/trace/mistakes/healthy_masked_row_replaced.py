# healthy

import torch
from torch import nn

torch.manual_seed(0)
sets, y = torch.randn(8, 5, 6), torch.randn(8, 1)
there = torch.arange(5) < torch.tensor([5, 3, 4, 0, 2, 1, 5, 4])[:, None]
score, last = nn.Linear(6, 1), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*score.parameters(), *last.parameters()], lr=0.001)
for step in range(8):
    scores = score(sets).squeeze(-1).masked_fill(~there, -torch.inf)
    weights = torch.softmax(scores, dim=1).nan_to_num(0.0)
    loss = nn.functional.mse_loss(last((weights[..., None] * sets).sum(1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
