# cause: learning-rate

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


def optimizer_of(model, rate=0.1, lr=0):  # here
    return torch.optim.Adam(model.parameters(), lr=lr)  # here


model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = optimizer_of(model)  # here
for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
