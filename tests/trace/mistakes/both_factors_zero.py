# cause: zero
# says: `adapter.down`
# says: Begin only the last of the factors at zero

import torch
from torch import nn


class Adapter(nn.Module):
    def __init__(self, inputs, outputs, rank):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.base.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(inputs, rank))  # here
        self.up = nn.Parameter(torch.zeros(rank, outputs))  # here

    def forward(self, x):
        return self.base(x) + x @ self.down @ self.up


torch.manual_seed(0)
adapter = Adapter(8, 6, 2)
head = nn.Linear(6, 3).requires_grad_(False)
optimizer = torch.optim.SGD([adapter.down, adapter.up], lr=0.1)
x, y = torch.randn(32, 8), torch.randint(3, (32,))
for step in range(8):
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(adapter(x)), y).backward()
    optimizer.step()
