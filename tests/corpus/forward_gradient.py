# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Functional training"
# source = "https://pytorch.org/tutorials/intermediate/forward_ad_usage.html"
# optimizer = false
# ///
"""Gradients without backpropagation: forward-mode derivatives along random directions."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, jvp

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
x = torch.randn(128, 6)
y = (x @ torch.randn(6, 3)).argmax(1)
params = {name: p.detach() for name, p in model.named_parameters()}


def loss_fn(params):
    return F.cross_entropy(functional_call(model, params, (x,)), y)


for step in range(200):
    tangents = {name: torch.randn_like(p) for name, p in params.items()}
    loss, directional = jvp(loss_fn, (params,), (tangents,))
    params = {name: p - 0.01 * directional * tangents[name] for name, p in params.items()}
    if step % 50 == 0:
        print(step, loss.item())

model.load_state_dict(params)
print("accuracy", (model(x).argmax(1) == y).float().mean().item())
