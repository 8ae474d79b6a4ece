# cause: nonfinite-output
# says: a learning rate of 3; it is set at
# says: lower the learning rate, or clip the gradients

import torch
from torch import nn

torch.manual_seed(0)
hidden = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
model = nn.Sequential(hidden, nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=3.0)  # here
x = torch.randn(256, 10)
y = x.sum(1, keepdim=True) * 3

for step in range(64):
    batch = slice(32 * (step % 8), 32 * (step % 8) + 32)
    optimizer.zero_grad()
    nn.functional.smooth_l1_loss(model(x[batch]), y[batch]).backward()
    optimizer.step()
