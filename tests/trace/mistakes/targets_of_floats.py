# cause: exception
# says: targets.long()

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 8), torch.randint(3, (32,)).float()
for _ in range(8):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()  # here
    optimizer.step()
