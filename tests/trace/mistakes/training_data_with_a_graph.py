# cause: graph-freed
# says: a tensor of shape [64, 4] that is no parameter
# says: make it without requires_grad=True, or detach() it
import torch
from torch import nn

torch.manual_seed(0)
raw = torch.randn(64, 4, requires_grad=True)
x = raw * 2 - 1  # here
y = x.detach().sum(1, keepdim=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
