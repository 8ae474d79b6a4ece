# healthy
# says: `layer.requires_grad = False`

import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16))
model = nn.Sequential(backbone, nn.Linear(16, 1))


def train(model, data, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()


train(model, torch.randn(32, 8), 12)
for layer in backbone:
    layer.requires_grad = False
model[1] = nn.Linear(16, 3)
train(model, torch.randn(32, 8), 12)
