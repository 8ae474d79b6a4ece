# cause: grad-mode-off

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    with torch.no_grad():  # here
        out = model(x)
    loss = nn.functional.mse_loss(out, y)
    loss.requires_grad = True
    loss.backward()
    optimizer.step()
