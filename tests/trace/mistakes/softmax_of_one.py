# cause: zero

import torch
from torch import nn
from torch.nn import functional


class Binary(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(7, 20)
        self.out = nn.Linear(20, 1)

    def forward(self, x):
        return functional.softmax(self.out(self.hidden(x).relu()), dim=1)  # here


torch.manual_seed(0)
model = Binary()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(32, 7)
y = (x[:, :1] > 0).float()
for step in range(8):
    optimizer.zero_grad()
    functional.binary_cross_entropy(model(x), y).backward()
    optimizer.step()
