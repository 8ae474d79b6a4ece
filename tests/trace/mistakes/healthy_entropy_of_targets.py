# healthy
"""A divergence from targets of the model itself, in two parts: the entropy needs no gradient."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 16)
for _ in range(8):
    targets = (model(x + 0.1 * torch.randn_like(x)).detach() / 0.5).softmax(1)
    cross_entropy = -(targets * model(x).log_softmax(1)).sum(1).mean()
    entropy = -(targets * targets.log()).sum(1).mean()
    loss = cross_entropy - entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
