# cause: graph-freed
# says: carried from one iteration to the next
# says: detach()
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(8, 16, 4), torch.randn(8, 16, 1)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
total = 0
for inputs, targets in zip(x, y):
    total = total + nn.functional.mse_loss(model(inputs), targets)  # here
    optimizer.zero_grad()
    total.backward()  # here
    optimizer.step()
