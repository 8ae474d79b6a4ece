# cause: other-parameters
# says: after the optimizer was built, at head_replaced_in_a_method.py:20, reset

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.reset(4)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))

    def reset(self, classes):
        self.head = nn.Linear(16, classes)  # here


class Engine:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.model.reset(2)

    def step(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()


model = Net()
engine = Engine(model, torch.optim.SGD(model.parameters(), lr=0.1))
x, y = torch.randn(32, 8), torch.randint(0, 2, (32,))
for _ in range(8):
    engine.step(x, y)
