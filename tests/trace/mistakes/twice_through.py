# cause: graph-freed

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.GRUCell(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
state = torch.zeros(32, 8)
for step in range(8):
    optimizer.zero_grad()
    state = model(x, state)  # here
    loss = (state - x).pow(2).mean()
    loss.backward()  # here
    optimizer.step()
