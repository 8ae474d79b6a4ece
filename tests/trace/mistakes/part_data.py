# cause: detached

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

body, head, auxiliary = nn.Linear(8, 16), nn.Linear(16, 1), nn.Linear(16, 1)
model = nn.ModuleList([body, head, auxiliary])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    hidden = torch.relu(body(x))
    extra = nn.functional.l1_loss(auxiliary(hidden), y)
    loss = nn.functional.mse_loss(head(hidden), y) + 0.1 * extra.data  # here
    loss.backward()
    optimizer.step()
