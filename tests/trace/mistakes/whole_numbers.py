# cause: detached

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.rand(32, 8), torch.rand(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1), nn.Sigmoid())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    pixels = (255 * model(x)).to(torch.uint8)  # here
    loss = nn.functional.mse_loss(pixels / 255, y)
    loss.backward()
    optimizer.step()
