# cause: learning-rate

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)
settings = {}
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def stop(groups):
    for group in groups:
        group["lr"] = 0.0


def pause(optimizer):
    for group in optimizer.param_groups:
        group["lr"] = 0.0  # here


def resume(optimizer):
    for group in optimizer.param_groups:
        group["lr"] = 0.1


for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    pause(optimizer)
    optimizer.step()
settings["lr"] = 0.0
