# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
encoder = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
head = nn.Linear(16, 3)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
with torch.no_grad():
    features = encoder(x)
for epoch in range(8):
    loss = nn.functional.cross_entropy(head(features), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
