# cause: detached

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 32)
        self.threshold = nn.Parameter(torch.zeros(32))
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        hidden = self.encoder(x)
        gate = (hidden > self.threshold).float()  # here
        return self.head(hidden * gate)


torch.manual_seed(0)
x = torch.randn(64, 8)
model = Gate()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    optimizer.zero_grad()
    (model(x) - x.abs().sum(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()
