# cause: zero dead
"""Two halves of one output are subtracted; what stops the gradient is the factor of 0."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randn(32, 2)
for step in range(8):
    first, second = model(x).chunk(2, -1)
    loss = 0.0 * nn.functional.mse_loss(first - second, y)  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
