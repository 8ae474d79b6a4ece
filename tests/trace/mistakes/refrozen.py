# cause: frozen
# says: Call requires_grad_(True)

import torch
from torch import nn

torch.manual_seed(0)
body, back, head = nn.Linear(8, 6), nn.Linear(6, 8), nn.Linear(6, 2)
x = torch.randn(64, 8)
y = (x[:, 0] > 0).long()


def fit(parts, loss_of, steps):
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()


def classify():
    return nn.functional.cross_entropy(head(torch.tanh(body(x))), y)


fit([body, back], lambda: (back(torch.tanh(body(x))) - x).square().mean(), 6)
body.requires_grad_(False)  # here
fit([head], classify, 6)
body.train()
fit([body, head], classify, 6)
