# healthy
# newest
"""Labels inside of vmap have no single values to look at; lazy layers get theirs by a first run."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
model = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(2))
model(torch.randn(2, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def loss_of(parameters, x, y):
    return nn.functional.cross_entropy(functional_call(model, parameters, (x[None],)), y[None])


for _ in range(6):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    values = {name: parameter.detach() for name, parameter in model.named_parameters()}
    each = vmap(grad(loss_of), (None, 0, 0))(values, x, y)
    for name, parameter in model.named_parameters():
        parameter.grad = each[name].mean(0)
    optimizer.step()
    optimizer.zero_grad()
