# /// script
# dependencies = ["torchopt"]
# [tool.corpus]
# environment = "science"
# field = "Meta-learning"
# source = "https://torchopt.readthedocs.io/en/latest/basics/basics.html"
# optimizer = false
# ///
"""A functional optimizer of torchopt: gradients, updates and parameters are values."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchopt
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)
x = torch.randn(256, 5)
y = torch.sin(x.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
params = {name: p.detach().clone() for name, p in model.named_parameters()}

optimizer = torchopt.adam(lr=1e-2)  # define your optimizer
opt_state = optimizer.init(params)  # init optimizer


def loss_fn(params, xs, ys):
    return F.mse_loss(functional_call(model, params, (xs,)), ys)


for step in range(60):
    rows = torch.randint(256, (64,))
    grads, loss = grad_and_value(loss_fn)(params, x[rows], y[rows])
    updates, opt_state = optimizer.update(grads, opt_state, params=params)  # get updates
    params = torchopt.apply_updates(params, updates, inplace=False)  # update network parameters
    if step % 15 == 0:
        print(f"{step}: loss {loss.item():.4f}")

model.load_state_dict(params)
print(f"final loss {F.mse_loss(model(x), y).item():.4f}")
