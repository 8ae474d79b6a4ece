"""The forward pass is under no_grad."""

# ruff: noqa: INP001  (a user's own)

import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(50):
    with torch.no_grad():
        loss = model(torch.randn(8, 4)).mean()
    loss.backward()
    optimizer.step()
