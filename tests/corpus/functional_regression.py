# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "functional training"
# source = "https://docs.pytorch.org/docs/stable/func.migrating.html"
# optimizer = false
# ///
"""torch.func: the gradient of a functional call, and parameters that are made anew each step."""

import torch
from torch import nn
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)
inputs = torch.randn(64, 3)
targets = torch.sin(inputs.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
params = {name: p.detach() for name, p in model.named_parameters()}


def compute_loss(params, inputs, targets):
    prediction = functional_call(model, params, (inputs,))
    return nn.functional.mse_loss(prediction, targets)


for step in range(40):
    grads, loss = grad_and_value(compute_loss)(params, inputs, targets)
    params = {name: p - 0.1 * grads[name] for name, p in params.items()}
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
