# cause: other-parameters
# says: `module` was never trained
# says: (`trainer.model`)
import copy

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x):
        return self.linear(x)


class Trainer:
    def __init__(self, module):
        self.model = copy.deepcopy(module)

    def fit(self, x):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for _ in range(6):
            loss = (self.model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


torch.manual_seed(0)
x = torch.randn(64, 4)
module = Net()
trainer = Trainer(module)  # here
trainer.fit(x)
with torch.no_grad():
    print(module(x).mean())  # here
