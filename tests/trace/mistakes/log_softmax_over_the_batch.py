# healthy
# says: gets a log_softmax over another dimension

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 6), torch.randint(3, (32,))
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3), nn.LogSoftmax(dim=0))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(8):
    optimizer.zero_grad()
    nn.functional.nll_loss(model(x), y).backward()
    optimizer.step()
