# healthy
# says: a subtraction gets shapes [16, 1] and [16] at huber_of_all_pairs.py:8, so it compares each
import torch
from torch import nn


def huber(prediction, target):
    error = prediction - target
    small = error.abs() < 1
    return torch.where(small, 0.5 * error**2, error.abs() - 0.5).mean()


torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(16, 4), torch.randn(16)
for _ in range(8):
    loss = huber(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
