# cause: detached
# remark

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    predicted = model(x)
    penalty = torch.tensor([row.abs().mean() for row in predicted], requires_grad=True)  # here
    loss = nn.functional.mse_loss(predicted, y) + penalty.mean()
    loss.backward()
    optimizer.step()
