# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
labels = torch.randint(0, 5, (32,))
labels[::2] = -100


def closure():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), labels)
    loss.backward()
    return loss


for step in range(6):
    optimizer.step(closure)
