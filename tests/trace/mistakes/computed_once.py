# cause: graph-freed
# newest
# says: before the model ran
# says: Compute it anew in each step, in forward
import torch
from torch import nn


class Sloped(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.raw = nn.Parameter(torch.zeros(1))
        self.slope = nn.functional.softplus(self.raw)  # here

    def forward(self, x):
        return self.slope * self.linear(x)


torch.manual_seed(0)
x = torch.randn(64, 4)
model = Sloped()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
