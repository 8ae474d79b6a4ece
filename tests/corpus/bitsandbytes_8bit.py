# /// script
# dependencies = ["bitsandbytes"]
# [tool.corpus]
# environment = "science"
# field = "Optimizers"
# source = "https://huggingface.co/docs/bitsandbytes/main/en/optimizers"
# optimizer = true
# ///
"""An 8-bit AdamW of bitsandbytes: large tensors keep 8-bit states, small ones 32-bit states."""

import bitsandbytes as bnb
import torch
import torch.nn as nn

torch.manual_seed(0)
x = torch.randn(128, 64)
y = torch.sin(x[:, :8])
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=5e-3, min_8bit_size=4096)

for step in range(20):
    rows = torch.randint(128, (32,))
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"{step}: loss {loss.item():.4f}")
