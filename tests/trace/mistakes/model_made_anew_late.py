# cause: other-parameters

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))


torch.manual_seed(0)
x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
model = build()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(14):
    if epoch == 6:
        state = model.state_dict()
        model = build()  # here
        model.load_state_dict(state)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
