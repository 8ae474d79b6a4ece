# cause: not-registered
# says: run the model once before the optimizer is built

import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.heads = nn.ModuleDict()

    def forward(self, x, task):
        hidden = self.body(x).relu()
        if task not in self.heads:
            self.heads[task] = nn.Linear(hidden.shape[1], 1)  # here
        return self.heads[task](hidden)


torch.manual_seed(0)
model = Tower()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    loss = sum(model(torch.randn(6, 4), task).square().mean() for task in ("age", "income"))
    loss.backward()
    optimizer.step()
