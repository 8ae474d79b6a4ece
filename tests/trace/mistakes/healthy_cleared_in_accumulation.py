# healthy
# says: the gradients of 3 of 4 backward passes before a step are cleared
# says: at healthy_cleared_in_accumulation.py:14

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(32):
    x, y = torch.randn(8, 6), torch.randn(8, 1)
    loss = nn.functional.mse_loss(model(x), y) / 4
    optimizer.zero_grad()
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
