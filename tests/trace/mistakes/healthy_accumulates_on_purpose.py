# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(32):
    nn.functional.mse_loss(model(x), y).backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
