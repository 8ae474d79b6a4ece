# cause: graph-freed
# says: computed once
# says: Compute it anew in each step
# newest

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 6), torch.randn(32, 1)
size = torch.stack([p.square().sum() for p in model.parameters()]).sum()  # here
for step in range(8):
    prediction = model(x)
    loss = nn.functional.mse_loss(prediction, y)
    loss = loss + 1e-3 * size
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
