# cause: other-parameters

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
for parameter in model.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)  # here
model[2] = nn.Linear(8, 2)  # here
for step in range(8):
    optimizer.zero_grad()
    model(torch.randn(6, 4)).square().mean().backward()
    optimizer.step()
