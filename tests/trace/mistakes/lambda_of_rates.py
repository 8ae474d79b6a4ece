# cause: rounding
# says: return a factor

import torch
from torch import nn

torch.manual_seed(0)

rate = 1e-5
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate * 0.9**step)  # here
x, y = torch.randn(32, 6), torch.randn(32, 1)
for _ in range(8):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    decay.step()
