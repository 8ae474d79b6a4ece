# healthy
# says: weight_decay=5 of SGD, built at healthy_strong_weight_decay.py:10

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 6), torch.randn(32, 1)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, weight_decay=5.0)
for _ in range(8):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
