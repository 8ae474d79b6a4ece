# cause: steps-skipped
# says: The forward pass gave NaN or infinity already
# says: Scale the inputs, or use bfloat16
# newest
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 4) * 1e6, torch.randn(64, 1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(6):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y.half())  # here
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # here
    scaler.update()
