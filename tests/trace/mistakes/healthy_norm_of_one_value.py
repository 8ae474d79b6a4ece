# healthy
# says: GroupNorm normalises each value alone, run at healthy_norm_of_one_value.py:15

import torch
from torch import nn

torch.manual_seed(0)

convolution, pool = nn.Conv2d(1, 8, 3), nn.AdaptiveAvgPool2d(1)
norm, head = nn.GroupNorm(8, 8), nn.Linear(8, 2)
model = nn.ModuleList([convolution, pool, norm, head])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(16, 1, 8, 8), torch.randint(0, 2, (16,))
for _ in range(6):
    features = norm(pool(convolution(x).relu()))
    loss = nn.functional.cross_entropy(head(features.flatten(1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
