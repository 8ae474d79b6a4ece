# healthy
# says: a subtraction gets shapes [64] and [64, 1]
"""A loss that is written out, of predictions [64, 1] and targets [64]: it trains to one value."""

import torch
from torch import nn


class Rents(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.layers(x)


torch.manual_seed(0)
x = torch.randn(64, 5)
rents = x @ torch.randn(5) + 3
model = Rents()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(20):
    predicted = model(x)
    error = rents - predicted
    loss = 0.5 * (error**2).mean()  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
