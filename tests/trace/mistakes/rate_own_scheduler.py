# cause: learning-rate

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


class Warmup:
    def __init__(self, optimizer, rate, steps):
        self.optimizer, self.rate, self.steps, self.done = optimizer, rate, steps, 0
        self.step()

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * (self.done // self.steps)  # here
        self.done += 1


model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = Warmup(optimizer, 0.1, steps=1000)  # here
for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    scheduler.step()
