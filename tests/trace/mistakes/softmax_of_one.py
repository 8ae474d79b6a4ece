# cause: zero

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.rand(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1), nn.Softmax(dim=1))  # here
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
