# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Physics-informed networks"
# source = "https://github.com/benmoseley/harmonic-oscillator-pinn"
# optimizer = true
# ///
"""A physics-informed network solves a damped oscillator: its derivatives are part of the loss."""

import torch
import torch.nn as nn

torch.manual_seed(123)
d, w0 = 2.0, 20.0
mu, k = 2 * d, w0**2


def oscillator(x):
    w = (w0**2 - d**2) ** 0.5
    phi = torch.arctan(torch.tensor(-d / w))
    A = 1 / (2 * torch.cos(phi))
    return torch.exp(-d * x) * 2 * A * torch.cos(phi + w * x)


class FCN(nn.Module):
    def __init__(self, n_hidden):
        super().__init__()
        self.fcs = nn.Sequential(nn.Linear(1, n_hidden), nn.Tanh())
        self.fch = nn.Sequential(
            nn.Linear(n_hidden, n_hidden), nn.Tanh(), nn.Linear(n_hidden, n_hidden), nn.Tanh()
        )
        self.fce = nn.Linear(n_hidden, 1)

    def forward(self, x):
        return self.fce(self.fch(self.fcs(x)))


x_data = torch.linspace(0, 0.4, 10).view(-1, 1)
y_data = oscillator(x_data)
x_physics = torch.linspace(0, 1, 30).view(-1, 1).requires_grad_(True)

model = FCN(32)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for i in range(300):
    optimizer.zero_grad()

    # compute the "data loss"
    yh = model(x_data)
    loss1 = torch.mean((yh - y_data) ** 2)

    # compute the "physics loss"
    yhp = model(x_physics)
    dx = torch.autograd.grad(yhp, x_physics, torch.ones_like(yhp), create_graph=True)[0]
    dx2 = torch.autograd.grad(dx, x_physics, torch.ones_like(dx), create_graph=True)[0]
    physics = dx2 + mu * dx + k * yhp
    loss2 = 1e-4 * torch.mean(physics**2)

    loss = loss1 + loss2
    loss.backward()
    optimizer.step()
    if i % 100 == 0:
        print(i, loss1.item(), loss2.item())
