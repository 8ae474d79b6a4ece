# cause: exception
# says: Use / in place of //

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
halves = len(x) // 2
for step in range(8):
    optimizer.zero_grad()
    errors = (model(x) - y).square().sum()
    loss = errors // halves  # here
    loss.backward()
    optimizer.step()
