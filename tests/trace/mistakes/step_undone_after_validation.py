# cause: not-trained
# says: check what it compares with

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(48, 4)
y = x.square().sum(1, keepdim=True)
best, most = copy.deepcopy(model.state_dict()), 0.0
for _ in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x[:32]), y[:32]).backward()
    optimizer.step()
    with torch.no_grad():
        error = nn.functional.mse_loss(model(x[32:]), y[32:]).item()
    if error < most:
        best, most = copy.deepcopy(model.state_dict()), error
    model.load_state_dict(best)  # here
