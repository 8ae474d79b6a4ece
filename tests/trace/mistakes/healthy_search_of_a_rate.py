# healthy

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.randn(48, 4)
y = x.square().sum(1, keepdim=True)
first = copy.deepcopy(model.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for rate in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3):
    model.load_state_dict(first)
    optimizer.param_groups[0]["lr"] = rate
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x[:32]), y[:32]).backward()
    optimizer.step()
    with torch.no_grad():
        print(rate, nn.functional.mse_loss(model(x[32:]), y[32:]).item())
