# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "mixed precision"
# source = "https://docs.pytorch.org/docs/stable/notes/amp_examples.html"
# optimizer = true
# ///
"""Mixed precision on the CPU: float16 autocast, scaled losses, unscaled clipping."""

import torch
from torch import autocast, nn
from torch.amp import GradScaler

torch.manual_seed(0)
data = [(torch.randn(16, 24), torch.randn(16, 4)) for _ in range(12)]
model = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 4))
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

# Creates a GradScaler once at the beginning of training.
scaler = GradScaler("cpu", init_scale=1024.0)

for epoch in range(2):
    for input, target in data:
        optimizer.zero_grad()
        with autocast(device_type="cpu", dtype=torch.float16):
            output = model(input)
            loss = loss_fn(output, target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
    print(f"epoch {epoch}: loss {loss.item():.4f}, scale {scaler.get_scale():.0f}")
