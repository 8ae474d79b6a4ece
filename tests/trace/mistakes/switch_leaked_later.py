# cause: grad-mode-off

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))


def train():
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def evaluate():
    torch.set_grad_enabled(False)  # here
    return (model(x).argmax(1) == y).float().mean().item()


for epoch in range(6):
    print(train(), evaluate())
