# healthy
# says: the scheduler that was set at healthy_low_first_of_two_schedulers.py:12 kept the learning

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
# The end factor was meant as a learning rate, and the second scheduler never begins.
warm_up = LinearLR(optimizer, 1e-4, 1e-3, 4)
decay = CosineAnnealingLR(optimizer, 8)
scheduler = SequentialLR(optimizer, [warm_up, decay], [12])
x, y = torch.randn(32, 6), torch.randn(32, 1)
for _ in range(12):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
