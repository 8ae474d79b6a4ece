# cause: in-place

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

first, activation, last = nn.Linear(8, 16), nn.ReLU(inplace=True), nn.Linear(16, 1)
optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    hidden = first(x)
    penalty = hidden.view(16, 32).square().mean()
    out = last(activation(hidden))  # here
    loss = nn.functional.mse_loss(out, y) + penalty
    loss.backward()
    optimizer.step()
