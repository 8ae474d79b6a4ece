# healthy
# says: the scheduler that was set at healthy_long_warmup.py:11 kept the learning rate below 1 %

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
# The warm-up has 10,000 steps, and the run has 12.
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10_000))
x, y = torch.randn(32, 6), torch.randn(32, 1)
for _ in range(12):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
