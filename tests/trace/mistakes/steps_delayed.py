# cause: not-trained never-stepped

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


def train(model, optimizer, steps, learning_starts):
    for step in range(steps):
        if step >= learning_starts:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()


model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer, steps=500, learning_starts=1_000)  # here
