# cause: exception
# says: Build the optimizer from the same parameters

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(8, 16), nn.Linear(16, 1)
saved = torch.optim.SGD(body.parameters(), lr=0.1, momentum=0.9).state_dict()
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
optimizer.load_state_dict(saved)  # here
x, y = torch.randn(32, 8), torch.randn(32, 1)
for _ in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(head(body(x).relu()), y).backward()
    optimizer.step()
