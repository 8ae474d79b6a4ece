# /// script
# dependencies = ["schedulefree"]
# [tool.corpus]
# environment = "language"
# field = "optimizers"
# source = "https://github.com/facebookresearch/schedule_free"
# optimizer = true
# ///
"""Schedule-Free AdamW: the optimizer is switched between train and eval with the model."""

import schedulefree
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(256, 10)
y = (x[:, 0] * x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=0.01, warmup_steps=4)
criterion = nn.CrossEntropyLoss()

for epoch in range(4):
    model.train()
    optimizer.train()
    for rows in torch.randperm(256).split(32):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    model.eval()
    optimizer.eval()
    with torch.no_grad():
        accuracy = (model(x).argmax(1) == y).float().mean().item()
    print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {accuracy:.2f}")
