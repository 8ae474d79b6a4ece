# healthy
# A loss against one number, or of rows against one row, is no comparison of each with each.

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, row = torch.randn(32, 6), torch.randn(4)
for _ in range(6):
    out = model(x)
    loss = nn.functional.mse_loss(out, torch.tensor(1.0)) + nn.functional.l1_loss(out, row)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
