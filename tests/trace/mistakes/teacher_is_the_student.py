# cause: frozen

import torch
from torch import nn


class Pair(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.student = body
        self.teacher = body
        self.head = nn.Linear(8, 8)
        self.teacher.requires_grad_(False)  # here

    def forward(self, x):
        return (self.head(self.student(x)) - self.teacher(x).detach()).square().mean()


torch.manual_seed(0)
model = Pair(nn.Linear(4, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    model(torch.randn(6, 4)).backward()
    optimizer.step()
