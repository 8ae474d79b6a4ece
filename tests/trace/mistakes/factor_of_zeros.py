# cause: zero

import torch
from torch import nn

torch.manual_seed(0)
trunk, first, second = nn.Linear(6, 16), nn.Linear(16, 1), nn.Linear(16, 3)
model = nn.ModuleList([trunk, first, second])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y, label = torch.randn(32, 6), torch.randn(32, 1), torch.randint(0, 3, (32,))
total_steps = 8
for step in range(total_steps):
    hidden = trunk(x).tanh()
    weight = step // total_steps
    loss = nn.functional.mse_loss(first(hidden), y)
    loss = loss + weight * nn.functional.cross_entropy(second(hidden), label)  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
