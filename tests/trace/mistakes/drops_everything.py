# cause: zero
# says: not the part which is kept

import torch
from torch import nn

torch.manual_seed(0)

keep = 1.0
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(keep), nn.Linear(16, 1))  # here
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(32, 6), torch.randn(32, 1)
for _ in range(6):
    loss = nn.functional.mse_loss(model(x), y)  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
