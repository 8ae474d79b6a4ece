# cause: graph-freed
# newest

import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(6, 16), nn.Linear(16, 1)
        self.position = nn.Parameter(torch.randn(5, 16)) * 0.02  # here

    def forward(self, x):
        return self.head((self.layer(x) + self.position).tanh().mean(1))


model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(32, 5, 6), torch.randn(32, 1)
for _ in range(4):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
