# healthy

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Linear(8, 8) for _ in range(3)]
heads = [nn.Linear(8, 2) for _ in range(3)]
x = torch.randn(64, 8)
y = (x[:, 0] > 0).long()
for depth in range(1, 4):
    trained = nn.Sequential(*layers[:depth], heads[depth - 1])
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        nn.functional.cross_entropy(trained(x), y).backward()
        optimizer.step()
    layers[depth - 1].requires_grad_(False)

model = nn.Sequential(*layers)
for head in (nn.Linear(8, 2), nn.Linear(8, 2)):
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(model(x)), y).backward()
        optimizer.step()
