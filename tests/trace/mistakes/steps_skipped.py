# cause: steps-skipped
# newest

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, growth_interval=1)  # here
for step in range(4):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y) * 1e10
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # here
    scaler.update()
