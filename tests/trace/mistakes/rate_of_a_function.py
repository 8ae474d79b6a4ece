# cause: learning-rate
# says: lambda progress
# says: Print its argument
import torch
from torch import nn


def learn(model, x, learning_rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate(1.0))  # here
    for step in range(6):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(1 - step / 6)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
model = nn.Linear(4, 1)
learn(model, torch.randn(64, 4), learning_rate=lambda progress: 0.1 if progress > 2 else 0.0)  # here
