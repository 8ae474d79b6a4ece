# healthy
# says: gets a log_softmax over another dimension
"""The log-softmax of [batch, time, classes] is over the first dimension, and flattened then."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(4, 6, 8), torch.randint(5, (4, 6))
for step in range(8):
    loss = nn.functional.nll_loss(model(x).log_softmax(0).flatten(0, 1), y.flatten())  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
