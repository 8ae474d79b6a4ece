# /// script
# dependencies = ["torchdiffeq"]
# [tool.corpus]
# environment = "science"
# field = "differential equations"
# source = "https://github.com/rtqichen/torchdiffeq/blob/master/examples/ode_demo.py"
# optimizer = false
# kept_out = true
# ///
"""The rates of a Lotka-Volterra system and a correction net are fitted; updates by hand."""

import torch
import torch.nn as nn
from torchdiffeq import odeint_adjoint as odeint

torch.manual_seed(2)
t = torch.linspace(0.0, 2.0, 8)
y0 = torch.tensor([1.0, 0.6])


class LotkaVolterra(nn.Module):
    def __init__(self, rates):
        super().__init__()
        self.rates = nn.Parameter(torch.tensor(rates))
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        for layer in (self.net[0], self.net[2]):
            nn.init.normal_(layer.weight, std=0.05)
            nn.init.zeros_(layer.bias)

    def forward(self, t, y):
        a, b, c, d = self.rates
        prey, predator = y
        dy = torch.stack([a * prey - b * prey * predator, c * prey * predator - d * predator])
        return dy + self.net(y)


with torch.no_grad():
    true_y = odeint(LotkaVolterra([1.2, 0.9, 0.8, 1.1]), y0, t, method="rk4")

func = LotkaVolterra([1.0, 1.0, 1.0, 1.0])
lr, momentum = 0.02, 0.8
velocity = {name: torch.zeros_like(p) for name, p in func.named_parameters()}
for itr in range(16):
    pred_y = odeint(func, y0, t, method="rk4")
    loss = torch.mean(torch.abs(pred_y - true_y))
    func.zero_grad()
    loss.backward()
    with torch.no_grad():
        for name, p in func.named_parameters():
            if p.grad is not None:
                velocity[name].mul_(momentum).add_(p.grad)
                p.sub_(lr * velocity[name])
    if itr % 5 == 0:
        print("Iter {:04d} | Total Loss {:.6f}".format(itr, loss.item()))
