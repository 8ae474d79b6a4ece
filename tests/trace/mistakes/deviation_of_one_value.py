# cause: nonfinite-output
# says: correction=0

import torch
from torch import nn

torch.manual_seed(0)
data = torch.randn(49, 6)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for first in range(0, 49, 16):
    z = model(data[first : first + 16])
    z = (z - z.mean(0)) / (z.std(dim=0) + 1e-6)  # here
    loss = (z.T @ z / len(z) - torch.eye(3)).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
