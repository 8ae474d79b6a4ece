# healthy
# The model is in training mode in each step; the target network never is.

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
target = copy.deepcopy(model).eval()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y = torch.randn(32, 6), torch.randn(32, 1)
for _ in range(30):
    model.eval()
    with torch.no_grad():
        model(x), target(x)
    model.train()
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    target.load_state_dict(model.state_dict())
