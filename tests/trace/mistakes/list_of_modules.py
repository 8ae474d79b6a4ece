# cause: not-registered
# says: is a plain list of modules

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.layers = [nn.Linear(16, 16) for _ in range(3)]  # here
        self.last = nn.Linear(16, 1)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.last(x)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
