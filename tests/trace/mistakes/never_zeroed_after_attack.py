# cause: never-zeroed
# remark

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    attacked = x.clone().requires_grad_()
    nn.functional.mse_loss(model(attacked), y).backward()
    loss = nn.functional.mse_loss(model(x + 0.01 * attacked.grad.sign()), y)
    loss.backward()  # here
    optimizer.step()  # here
