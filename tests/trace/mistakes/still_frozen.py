# cause: frozen

import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Sequential(nn.Linear(6, 12), nn.ReLU()), nn.Linear(12, 3)
model = nn.Sequential(encoder, head)
x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))


def train(optimizer):
    for _ in range(6):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


for parameter in encoder.parameters():
    parameter.requires_grad_(False)  # here
train(torch.optim.Adam(head.parameters(), lr=1e-3))
train(torch.optim.Adam(model.parameters(), lr=1e-4))
