# cause: not-trained

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


def train(model):
    parameters = model.parameters()  # here
    for step in range(24):
        model.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        with torch.no_grad():
            for p in parameters:
                p -= 0.1 * p.grad


train(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
