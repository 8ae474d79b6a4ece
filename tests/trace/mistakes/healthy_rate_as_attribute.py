# healthy
# says: `optimizer.lr = …` at healthy_rate_as_attribute.py:12 has no effect

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
x, y = torch.randn(32, 6), torch.randn(32, 1)
for step in range(6):
    optimizer.lr = 0.1 / (step + 1)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
