# cause: zero

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
lengths = torch.tensor([3, 5, 8, 4])
for step in range(8):
    tokens, tags = torch.randint(0, 20, (4, 8)), torch.randint(0, 5, (4, 8))
    mask = (torch.arange(8)[None] > lengths.max()).float().expand(4, 8)
    each = nn.functional.cross_entropy(model(tokens).transpose(1, 2), tags, reduction="none")
    loss = (each * mask).sum() / mask.sum().clamp(min=1)  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
