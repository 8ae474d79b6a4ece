# /// script
# dependencies = ["lion-pytorch"]
# [tool.corpus]
# environment = "language"
# field = "optimizers"
# source = "https://github.com/lucidrains/lion-pytorch"
# optimizer = true
# ///
"""Lion with bfloat16 autocast on the CPU; weights and their updates stay in float32."""

import torch
from lion_pytorch import Lion
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 48), nn.LayerNorm(48), nn.GELU(), nn.Linear(48, 1))
opt = Lion(model.parameters(), lr=1e-3, weight_decay=1e-2)

x = torch.randn(128, 16)
y = torch.sin(x.sum(1, keepdim=True))
for step in range(24):
    rows = torch.randint(128, (32,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x[rows]).float(), y[rows])
    loss.backward()
    opt.step()
    opt.zero_grad()
    if step % 8 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
