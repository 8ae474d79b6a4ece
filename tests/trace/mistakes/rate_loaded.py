# cause: learning-rate
# says: The state that was loaded into Adam set its learning rate to 0
# says: After load_state_dict

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


def fit(model, optimizer, scheduler, steps):
    for step in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def build():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))


model = build()
first = torch.optim.Adam(model.parameters(), lr=0.1)
fit(model, first, torch.optim.lr_scheduler.LinearLR(first, 1, 0, total_iters=2), 2)
model = build()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer.load_state_dict(first.state_dict())  # here
fit(model, optimizer, None, 8)
