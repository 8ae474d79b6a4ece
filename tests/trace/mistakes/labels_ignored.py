# cause: labels-ignored

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
labels = torch.full((32,), -100)  # here
for step in range(8):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), labels)  # here
    loss.backward()
    optimizer.step()
