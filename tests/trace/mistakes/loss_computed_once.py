# cause: graph-freed
# says: computed once
# says: Compute it anew in each step
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randn(64, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = nn.functional.mse_loss(model(x), y)  # here
for epoch in range(8):
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
