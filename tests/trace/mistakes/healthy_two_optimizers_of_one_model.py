# healthy

import torch
from torch import nn

torch.manual_seed(0)
features = nn.Sequential(nn.Linear(8, 16), nn.Tanh())  # they get a gradient and stay as they are
model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 8))
perceived = nn.Sequential(nn.Linear(8, 16), nn.Tanh())  # so does this network of a loss
slow = torch.optim.Adam(model.parameters(), lr=1e-3)
fast = torch.optim.SGD(model.parameters(), lr=1e-1)

for step in range(8):
    data = torch.randn(32, 8)
    slow.zero_grad()
    nn.functional.mse_loss(model(features(data)), data).backward()
    slow.step()

    fast.zero_grad()
    nn.functional.mse_loss(perceived(model(features(data))), perceived(data)).backward()
    fast.step()
