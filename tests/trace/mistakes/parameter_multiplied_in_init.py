# cause: graph-freed
# newest
# says: The result of an operation on an nn.Parameter is no parameter
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.gamma = nn.Parameter(torch.ones(4)) * 0.1  # here

    def forward(self, x):
        return x + self.gamma * self.layer(x)


torch.manual_seed(0)
block = Block()
optimizer = torch.optim.Adam(block.parameters(), lr=1e-2)
x, y = torch.randn(16, 4), torch.randn(16, 4)
for _ in range(8):
    loss = nn.functional.mse_loss(block(x), y)
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
