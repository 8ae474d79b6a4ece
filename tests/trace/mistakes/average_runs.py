# cause: other-parameters

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    average(torch.randn(6, 4)).square().mean().backward()  # here
    optimizer.step()
    with torch.no_grad():
        for mean, value in zip(average.parameters(), model.parameters()):
            mean.lerp_(value, 0.1)
