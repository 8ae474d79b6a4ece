# healthy
"""A log-softmax over the classes, by each way to write their dimension; a sigmoid in BCELoss."""

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 6), torch.randint(3, (32,))
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    optimizer.zero_grad()
    scores = model(x)
    loss = nn.functional.nll_loss(scores.log_softmax((-1, 1)[step % 2]), y)
    loss = loss + nn.functional.nll_loss(scores.T[None].log_softmax(1), y[None])
    loss = loss + nn.functional.nll_loss(scores[0].log_softmax(0), y[0])
    loss = loss + nn.BCELoss()(scores[:, 0].sigmoid(), (y == 0).float())
    loss.backward()
    optimizer.step()
