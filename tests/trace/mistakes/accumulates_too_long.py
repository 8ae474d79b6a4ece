# cause: never-stepped
# says: a condition that never let it run
import torch
from torch import nn

model = nn.Linear(4, 1); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # noqa: E702
for _ in range(2):
    for step in range(6):
        model(torch.randn(8, 4)).square().mean().backward()
        if (step + 1) % 16 == 0:  # here
            optimizer.step()
            optimizer.zero_grad()
