# cause: rebuilt

import torch
from torch import nn

torch.manual_seed(0)
x, labels = torch.randn(32, 6), torch.randint(0, 3, (32,))

model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters())
for step in range(8):
    optimizer.zero_grad()
    hits = torch.argmax(model(x), dim=-1) == labels
    loss = (1 - hits.float().mean()).requires_grad_()  # here
    loss.backward()
    optimizer.step()
