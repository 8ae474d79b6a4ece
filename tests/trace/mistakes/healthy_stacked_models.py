# healthy
# newest
import copy

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(5)]
stacked, buffers = stack_module_state(models)
optimizer = torch.optim.SGD(stacked.values(), lr=0.05)
base = copy.deepcopy(models[0]).to("meta")


def loss_of(weights, buffers, x, y):
    return nn.functional.mse_loss(functional_call(base, (weights, buffers), (x,)), y)


for step in range(8):
    x, y = torch.rand(64, 3), torch.rand(64, 1)
    optimizer.zero_grad()
    vmap(loss_of, in_dims=(0, 0, None, None))(stacked, buffers, x, y).sum().backward()
    optimizer.step()
