# cause: not-called

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

body, head = nn.Linear(8, 16), nn.Linear(8, 1)
first = torch.optim.SGD(body.parameters(), lr=0.1)
second = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(8):
    first.zero_grad()
    second.zero_grad()
    body(x).square().mean().backward()
    loss = nn.functional.mse_loss(head(x), y)
    loss.backward  # here
    first.step()
    second.step()
