# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.value, self.kind = nn.Linear(8, 16), nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        return self.value(hidden), self.kind(hidden)


model = Two()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(24):
    optimizer.zero_grad()
    value, kind = model(x)
    loss = nn.functional.mse_loss(value, y)
    if step >= 12:
        loss = loss + nn.functional.cross_entropy(kind, (y[:, 0] > 0).long())
    loss.backward()
    optimizer.step()
