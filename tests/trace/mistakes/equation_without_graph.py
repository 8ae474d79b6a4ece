# cause: detached
# Questions about physics-informed networks: the residual is computed from derivatives that are taken
# without create_graph=True. It has a graph all the same, that of its points.
# says: create_graph=True
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(net.parameters(), 5e-3)
ends, values = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [2.0]])


def residual():
    x = torch.rand(64, 1, requires_grad=True)
    u = net(x)
    (slope,) = torch.autograd.grad(u.sum(), x, retain_graph=True)  # here
    return slope - 3 * x**2


for _ in range(20):
    optimizer.zero_grad()
    equation = residual().pow(2).mean()
    boundary = (net(ends) - values).pow(2).mean()
    loss = equation + 10 * boundary
    loss.backward()
    optimizer.step()
