# healthy
# Both passes are made at one line, and the weights are changed in between through .data.

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(8, 6), torch.randn(8, 1)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for _ in range(8):
    closure()
    moved = [0.05 * p.grad / (p.grad.norm() + 1e-6) for p in model.parameters()]
    for p, e in zip(model.parameters(), moved):
        p.data.add_(e)
    closure()
    for p, e in zip(model.parameters(), moved):
        p.data.sub_(e)
    optimizer.step()
