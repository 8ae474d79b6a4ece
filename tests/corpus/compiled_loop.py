# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "torch.compile"
# source = "https://docs.pytorch.org/tutorials/intermediate/torch_compile_tutorial.html"
# optimizer = true
# ///
"""A compiled model in an ordinary loop, with an exponential moving average of its weights."""

import copy

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
start = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
compiled = torch.compile(model, backend="aot_eager")
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))

x = torch.randn(96, 8)
y = x.norm(dim=1, keepdim=True)
for step in range(20):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(compiled(x), y)
    loss.backward()
    optimizer.step()
    ema.update_parameters(model)
    if step % 5 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
with torch.no_grad():
    print(f"before {(start(x) - y).abs().mean():.3f}, average {(ema(x) - y).abs().mean():.3f}")
