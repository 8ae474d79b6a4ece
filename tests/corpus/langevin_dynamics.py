# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "updates by hand"
# source = "https://github.com/JavierAntoran/Bayesian-Neural-Networks"
# optimizer = false
# ///
"""Stochastic gradient Langevin dynamics: torch.autograd.grad, and a noisy update of each weight."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-1, 1, 128).unsqueeze(1)
y = x**3 + 0.05 * torch.randn(128, 1)
network = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
parameters = list(network.parameters())
step_size, samples = 2e-2, []

for step in range(60):
    rows = torch.randint(128, (32,))
    potential = nn.functional.mse_loss(network(x[rows]), y[rows])
    potential = potential + 1e-3 * sum(p.square().sum() for p in parameters)
    gradients = torch.autograd.grad(potential, parameters)
    with torch.no_grad():
        for p, g in zip(parameters, gradients):
            p.add_(-step_size * g + 1e-3 * torch.randn_like(p))
    if step >= 40:
        with torch.no_grad():
            samples.append(network(x))
    if step % 20 == 0:
        print(f"step {step}: potential {potential.item():.4f}")
mean = torch.stack(samples).mean(0)
print(f"error of the mean of {len(samples)} samples: {(mean - y).square().mean().item():.4f}")
