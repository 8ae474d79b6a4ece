# healthy: weights are filled with values between steps: of one layer, once, or after each use

import copy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
first = copy.deepcopy(model.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
adapter = nn.Linear(8, 8, bias=False)
nn.init.eye_(adapter.weight)
fast = torch.optim.SGD(adapter.parameters(), lr=0.01)
for step in range(8):
    nn.init.normal_(adapter.weight)  # it is adapted anew to each batch, and then predicts
    fast.zero_grad()
    (adapter(x) - x).square().mean().backward()
    fast.step()
    with torch.no_grad():
        adapted = adapter(x)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(adapted), y).backward()
    optimizer.step()
    if step == 2:  # the winning ticket begins again
        for module in model:
            if isinstance(module, nn.Linear):
                module.reset_parameters()
        model.load_state_dict(first)
