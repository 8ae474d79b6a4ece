# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "functional training"
# source = "https://docs.pytorch.org/tutorials/intermediate/forward_ad_usage.html"
# optimizer = false
# ///
"""Forward gradients: a directional derivative by jvp replaces backward, copy_ the optimizer."""

import torch
from torch import nn
from torch.func import functional_call, jvp

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
x = torch.randn(128, 4)
y = x @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])


def loss_of(params):
    return nn.functional.mse_loss(functional_call(model, params, (x,)), y)


for step in range(60):
    params = {name: p.detach() for name, p in model.named_parameters()}
    direction = {name: torch.randn_like(p) for name, p in params.items()}
    loss, slope = jvp(loss_of, (params,), (direction,))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(p - 1e-3 * slope * direction[name])
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
print(f"end: loss {loss_of(dict(model.named_parameters())).item():.4f}")
