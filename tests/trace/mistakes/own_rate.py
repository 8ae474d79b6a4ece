# cause: learning-rate

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


class Descent:
    def __init__(self, params, lr):
        self.params, self.lr = list(params), lr

    def step(self):
        for p in self.params:
            p.data.sub_(self.lr * p.grad)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


def train(model, optimizer):
    for step in range(24):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
train(model, Descent(model.parameters(), lr=1e-3 // 10))  # here
