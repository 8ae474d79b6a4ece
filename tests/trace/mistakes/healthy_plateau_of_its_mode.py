# healthy
# The loss falls and then stays; the accuracy rises, and in the end it falls.

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

torch.manual_seed(0)
x = torch.randn(64, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=1.5)
of_loss = ReduceLROnPlateau(optimizer, patience=0)
of_accuracy = ReduceLROnPlateau(optimizer, mode="max", patience=0)
for epoch in range(16):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    of_loss.step(max(1.0 - 0.2 * epoch, 0.3))
    of_accuracy.step([0.6, 0.7, 0.8, 0.7, 0.5][min(epoch, 4)])
