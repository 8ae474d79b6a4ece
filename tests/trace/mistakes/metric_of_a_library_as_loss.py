# cause: grad-mode-off
# says: use this value only to report
# library
"""The F1 score of torchmetrics is the loss; another metric is computed after it, for a log."""

import torch
from torch import nn
from torchmetrics.classification import BinaryAccuracy, BinaryF1Score

torch.manual_seed(0)
x = torch.randn(256, 8)
y = (x[:, 0] > 1).long()
model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))
f1, accuracy = BinaryF1Score(), BinaryAccuracy()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(8):
    probability = torch.sigmoid(model(x).squeeze(-1))
    loss = 1 - f1(probability, y)  # here
    print(step, loss.item(), accuracy(probability, y).item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
