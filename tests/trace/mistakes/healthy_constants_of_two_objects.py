# healthy
"""Two objects of a class: each adds a constant of its own at the same line, in every step."""

import torch
from torch import nn


class Prior(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.register_buffer("m", torch.tensor(m))

    def forward(self, x):
        return (-x.square() - self.m).sum()  # the line of both constants


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 10), nn.ReLU(), nn.Linear(10, 1))
first, second = Prior(0.5), Prior(3.0)
scale = nn.Parameter(torch.ones(()))
optimizer = torch.optim.Adam([*net.parameters(), scale], lr=0.1)
x, y = torch.linspace(0, 1, 100)[:, None], torch.sin(torch.linspace(0, 6, 100))[:, None]
for _ in range(8):
    optimizer.zero_grad()
    out = net(x)
    index = torch.floor(out / 0.1)
    index.detach_()  # indices of a grid: they have no gradient anyway
    near = out / 0.1 - index
    loss = (out - y).square().mean() + near.square().mean() - first(scale) - second(scale)
    loss.backward()
    optimizer.step()
