# cause: rounding
# says: The gradient vanished
"""A sigmoid after each of many layers: the first ones get a gradient that is nearly nothing."""

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Linear(20, 64), nn.Sigmoid()]  # here
for _ in range(12):
    layers += [nn.Linear(64, 64), nn.Sigmoid()]  # here
model = nn.Sequential(*layers, nn.Linear(64, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 20)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
for _ in range(8):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
