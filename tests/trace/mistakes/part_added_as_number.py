# cause: detached

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    out = model(x)
    data_loss = nn.functional.mse_loss(out, y)
    print(step, data_loss.item())
    loss = data_loss + 0.1 * out.abs().mean().item()  # here
    loss.backward()
    optimizer.step()
