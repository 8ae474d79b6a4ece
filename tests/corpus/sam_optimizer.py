# /// script
# dependencies = ["pytorch-optimizer"]
# [tool.corpus]
# environment = "science"
# field = "Optimizers"
# source = "https://pytorch-optimizers.readthedocs.io/en/latest/optimizer/"
# optimizer = true
# ///
"""Sharpness-aware minimisation: up to the worst point nearby, and down by its gradient."""

import torch
import torch.nn as nn
from pytorch_optimizer import SAM

torch.manual_seed(0)
x = torch.randn(256, 10)
y = (x[:, 0] * x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
loss_function = nn.CrossEntropyLoss()
optimizer = SAM(model.parameters(), base_optimizer=torch.optim.SGD, lr=0.1, momentum=0.9)

for epoch in range(5):
    for rows in torch.randperm(256).split(32):
        input, output = x[rows], y[rows]
        # first forward-backward pass
        loss = loss_function(model(input), output)
        loss.backward()
        optimizer.first_step(zero_grad=True)

        # second forward-backward pass: make sure to do a full forward pass
        loss_function(model(input), output).backward()
        optimizer.second_step(zero_grad=True)
    print(f"epoch {epoch}: loss {loss.item():.4f}")
