# healthy
# Each fold has weights and an optimizer of its own; noise is written to what no optimizer holds.

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(40, 6), torch.randn(40, 1)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
noise = torch.empty(8, 6)


def reset(module):
    if isinstance(module, nn.Linear):
        module.reset_parameters()


for fold in range(5):
    model.apply(reset)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in torch.randperm(len(x)).split(8):
        loss = nn.functional.mse_loss(model(x[batch] + noise.normal_(0, 0.1)), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
