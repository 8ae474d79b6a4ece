# cause: rounding
# says: at a learning rate of 1e-12
"""The second factor stays near zero, so the gradient of the first one is tiny, too."""

import torch
from torch import nn

torch.manual_seed(0)
first, second = nn.Linear(8, 4, bias=False), nn.Linear(4, 1, bias=False)
nn.init.zeros_(second.weight)
optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()], lr=1e-12)  # here
x, y = torch.randn(32, 8), torch.randn(32, 1)
for _ in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(second(first(x)), y).backward()
    optimizer.step()
