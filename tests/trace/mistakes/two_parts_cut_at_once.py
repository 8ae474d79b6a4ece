# cause: detached
"""Two parts of the loss are computed from what was detached; the third part trains."""

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    predicted = model(x)
    values = predicted.detach()  # here
    centre = values.mean().square()
    spread = (values.var() - 1).square()
    loss = nn.functional.mse_loss(predicted, y) + centre + spread
    loss.backward()
    optimizer.step()
