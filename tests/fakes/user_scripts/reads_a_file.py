"""Reads its data by a path that is relative to the directory it is started in."""

# ruff: noqa: INP001  (a user's own)

from pathlib import Path

import torch

inputs = torch.tensor(
    [float(line) for line in Path("numbers.txt").read_text(encoding="ascii").split()]
)
model = torch.nn.Linear(len(inputs), 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(1000):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
