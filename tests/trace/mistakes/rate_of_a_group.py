# cause: learning-rate

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
groups = [
    {"params": body.parameters(), "lr": 0.0},  # here
    {"params": head.parameters()},
]
optimizer = torch.optim.SGD(groups, lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    head(body(torch.randn(6, 4)).tanh()).square().mean().backward()
    optimizer.step()
