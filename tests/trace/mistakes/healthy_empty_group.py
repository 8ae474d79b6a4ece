# healthy: a group of an optimizer is empty, and the features below it are not trained on purpose

import torch
from torch import nn

torch.manual_seed(0)
features, head = nn.Linear(8, 3), nn.Linear(3, 8)
features.requires_grad_(False)
below = nn.Linear(8, 8)  # its gradient is only looked at
groups = [
    {"params": filter(lambda p: p.requires_grad, features.parameters()), "lr": 0.01},
    {"params": [p for p in head.parameters() if p.dim() > 2], "weight_decay": 0.1},
    {"params": (p for p in head.parameters() if p.dim() <= 2)},
]
optimizer = torch.optim.SGD(groups, lr=0.1)
data = torch.randn(32, 8)

for step in range(8):
    optimizer.zero_grad()
    below.zero_grad()
    nn.functional.mse_loss(head(features(below(data))), data).backward()
    optimizer.step()
