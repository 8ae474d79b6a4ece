# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
teacher = nn.Linear(8, 1).requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for step in range(8):
    optimizer.zero_grad()
    out = model(x + 0.1 * torch.randn_like(x))
    loss = nn.functional.mse_loss(out, y)
    target = out.detach() + 0.1 * torch.randn_like(out)
    loss = loss + 0.1 * nn.functional.mse_loss(out, target)
    error = (out - y).abs().mean()
    loss = loss + (error - loss).detach()  # the value is the error, the gradient that of the loss
    most = loss.detach().exp()
    loss = loss * (most / most) + step
    total += loss.item()
    loss.backward()
    optimizer.step()
