# healthy
"""Each task begins with the same values, and is judged with the learned ones."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
first = copy.deepcopy(model.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    model.load_state_dict(first)
    support, query = torch.randn(8, 4), torch.randn(8, 4)
    optimizer.zero_grad()
    (model(support) - support[:, :1]).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        print(float((model(query) - query[:, :1]).square().mean()))
