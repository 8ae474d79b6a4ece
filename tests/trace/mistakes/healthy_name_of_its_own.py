# healthy

import torch
from torch import nn

torch.manual_seed(0)


class Noise(nn.Module):
    def __init__(self, requires_grad=False):
        super().__init__()
        self.requires_grad = requires_grad  # a name of its own

    def forward(self, x):
        return x + 0.1 * torch.randn_like(x)


backbone = nn.Sequential(nn.Linear(8, 16), Noise(), nn.Linear(16, 16))
model = nn.Sequential(backbone, nn.Linear(16, 1))


def train(model, data, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()


train(model, torch.randn(32, 8), 12)
for parameter in backbone.parameters():
    parameter.requires_grad = False
model[1] = nn.Sequential(Noise(), nn.Linear(16, 3))
train(model, torch.randn(32, 8), 12)
