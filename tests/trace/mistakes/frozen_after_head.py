# cause: frozen
# says: After that line

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x))


model = Net()
for name, parameter in model.named_parameters():
    if name.startswith("head"):
        parameter.requires_grad = True
model.requires_grad_(False)  # here
x, y = torch.randn(16, 4), torch.randn(16, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(6):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
