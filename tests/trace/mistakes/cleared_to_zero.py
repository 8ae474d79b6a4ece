# cause: dropped

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(32, 6), torch.randn(32, 1)
for _ in range(6):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.zero_grad(set_to_none=False)  # here
    optimizer.step()
