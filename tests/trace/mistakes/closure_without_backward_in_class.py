# cause: not-trained
# says: The closure that
import torch
from torch import nn


class Fit:
    def __init__(self, model, x, y):
        self.model, self.x, self.y = model, x, y
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss(self):
        self.optimizer.zero_grad()
        return nn.functional.mse_loss(self.model(self.x), self.y)

    def run(self, steps):
        for _ in range(steps):
            self.optimizer.step(lambda: self.loss())  # here


torch.manual_seed(0)
x = torch.randn(64, 4)
Fit(nn.Linear(4, 1), x, x.sum(1, keepdim=True)).run(8)
