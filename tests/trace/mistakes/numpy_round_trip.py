# cause: detached
import numpy as np

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    predicted = np.clip(model(x).detach().numpy(), -1, 1)  # here
    loss = nn.functional.mse_loss(torch.from_numpy(predicted), y)
    loss.backward()
    optimizer.step()
