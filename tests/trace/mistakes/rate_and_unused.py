# cause: learning-rate

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.spare = nn.Linear(8, 16), nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        self.spare(hidden)
        return self.head(hidden)


model = Net()
lr = 0.0  # here
optimizer = torch.optim.SGD(model.parameters(), lr)  # here
for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
