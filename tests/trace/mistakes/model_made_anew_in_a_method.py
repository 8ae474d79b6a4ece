# cause: other-parameters
# says: after the optimizer was built, at model_made_anew_in_a_method.py:23, __init__

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class Engine:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.model = Net()  # here

    def step(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()


engine = Engine(torch.optim.SGD(Net().parameters(), lr=0.1))
x, y = torch.randn(32, 8), torch.randint(0, 2, (32,))
for _ in range(8):
    engine.step(x, y)
