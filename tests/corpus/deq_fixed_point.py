# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Implicit models"
# source = "https://implicit-layers-tutorial.org/deep_equilibrium_models/"
# optimizer = true
# ///
"""A deep equilibrium layer: the fixed point without a graph, its gradient by a hook that solves."""

import torch
import torch.nn as nn

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x[:, :1] * x[:, 1:2]).tanh()


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inject = nn.Linear(6, width)
        self.hidden = nn.Linear(width, width)
        nn.init.normal_(self.hidden.weight, std=0.05)

    def forward(self, z, x):
        return torch.tanh(self.hidden(z) + self.inject(x))


def forward_iteration(f, z, max_iter=25, tol=1e-4):
    for _ in range(max_iter):
        f_z = f(z)
        if (f_z - z).norm() < tol * (1 + f_z.norm()):
            break
        z = f_z
    return f_z


class DEQFixedPoint(nn.Module):
    def __init__(self, f, solver):
        super().__init__()
        self.f = f
        self.solver = solver

    def forward(self, x):
        # compute forward pass and re-engage autograd tape
        with torch.no_grad():
            z = self.solver(lambda z: self.f(z, x), torch.zeros(len(x), 16))
        z = self.f(z, x)

        # set up Jacobian vector product (without additional forward calls)
        z0 = z.clone().detach().requires_grad_()
        f0 = self.f(z0, x)

        def backward_hook(grad):
            return self.solver(
                lambda y: torch.autograd.grad(f0, z0, y, retain_graph=True)[0] + grad, grad
            )

        if z.requires_grad:
            z.register_hook(backward_hook)
        return z


model = nn.Sequential(DEQFixedPoint(Cell(16), forward_iteration), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)

for step in range(40):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(f"{step}: loss {loss.item():.4f}")
