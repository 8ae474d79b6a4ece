# healthy
# says: moved back towards their first values, by 10 % of the way, at average_that_pulls_the_model.py:14
"""The two sides of the moving average are exchanged: the average never changes."""

import copy

import torch
from torch import nn


@torch.no_grad()
def update(average: nn.Module, model: nn.Module) -> None:
    for mean, parameter in zip(average.parameters(), model.parameters()):
        parameter.lerp_(mean, 0.1)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
average = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(32, 8), torch.randn(32, 2)
for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    update(average, model)
