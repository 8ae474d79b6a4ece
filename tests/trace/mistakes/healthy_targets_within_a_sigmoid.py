# healthy
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.rand(16, 8)
x[0] = 1.01  # a few values are a bit too large
for _ in range(8):
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
