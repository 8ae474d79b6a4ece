# healthy

import torch
from torch import nn

torch.manual_seed(0)
score, head = nn.Linear(6, 1), nn.Linear(6, 2)
optimizer = torch.optim.SGD([*score.parameters(), *head.parameters()], lr=0.1)
x, y = torch.randn(12, 5, 6), torch.randint(2, (12,))
mask = torch.rand(12, 5) > 0.3
mask[:, 0] = True
empty = torch.full((1, 5), float("-inf"))
for step in range(6):
    optimizer.zero_grad()
    scores = score(x).squeeze(-1).masked_fill(~mask, float("-inf"))
    unused = torch.nan_to_num(empty.softmax(1)).sum()
    pooled = (scores.softmax(1).unsqueeze(-1) * x).sum(1)
    nn.functional.cross_entropy(head(pooled) + unused, y).backward()
    optimizer.step()
