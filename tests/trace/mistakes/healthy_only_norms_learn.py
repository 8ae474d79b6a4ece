# healthy
# says: only layers of normalisation learn: 4 parameters of the rest
# says: healthy_only_norms_learn.py:11

import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
for module in model:
    if not isinstance(module, nn.BatchNorm1d):
        module.requires_grad_(False)
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-2)
for _ in range(6):
    loss = nn.functional.cross_entropy(model(torch.randn(6, 8)), torch.randint(3, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
