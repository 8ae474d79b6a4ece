# healthy
# says: clipping at healthy_clipped_before_backward.py:14 never found a new gradient

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(32, 6), torch.randn(32, 1)
for _ in range(6):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    loss.backward()
    optimizer.step()
