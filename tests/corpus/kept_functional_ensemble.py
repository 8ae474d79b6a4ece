# /// script
# dependencies = ["torchopt"]
# [tool.corpus]
# environment = "science"
# field = "functional training"
# source = "https://torchopt.readthedocs.io/en/latest/basics/basics.html"
# optimizer = false
# kept_out = true
# ///
"""Three nets are trained at once with torch.func and the functional Adam of TorchOpt."""

import copy

import torch
import torch.nn.functional as F
import torchopt
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

torch.manual_seed(0)
inputs = torch.randn(64, 3)
targets = (inputs**2).sum(1, keepdim=True)


def make_net():
    return nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))


models = [make_net() for _ in range(3)]
params, buffers = stack_module_state(models)
params = {k: p.detach() for k, p in params.items()}
base_model = copy.deepcopy(models[0]).to("meta")


def compute_loss(params, buffers, x, y):
    prediction = functional_call(base_model, (params, buffers), (x,))
    return F.mse_loss(prediction, y)


optimizer = torchopt.adam(lr=0.02)
opt_state = optimizer.init(params)
step = vmap(grad_and_value(compute_loss), in_dims=(0, 0, None, None))

for epoch in range(40):
    grads, losses = step(params, buffers, inputs, targets)
    updates, opt_state = optimizer.update(grads, opt_state, inplace=False)
    params = torchopt.apply_updates(params, updates, inplace=False)
    if epoch % 10 == 0:
        print(epoch, [round(v, 4) for v in losses.tolist()])
