# cause: frozen other-parameters

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
for parameter in model[0].parameters():
    parameter.requires_grad = False  # here
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)  # here
for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
