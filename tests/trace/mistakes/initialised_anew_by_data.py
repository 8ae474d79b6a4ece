# cause: not-trained
# says: initialised anew before each step
# says: before the loop

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(32, 8), torch.randn(32, 1)


def reset(module):
    if isinstance(module, nn.Linear):
        module.weight.data.normal_(0.0, 0.02)  # here


def epoch():
    model.apply(reset)  # here
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()


for _ in range(8):
    epoch()
