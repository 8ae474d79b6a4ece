# healthy

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 6)
y = x.sum(1, keepdim=True).sin()
model = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 1))
# The rate is 1, so that what the function returns is the learning rate.
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: 0.004 * min((step + 1) ** -0.5, (step + 1) * 40**-1.5)
)
for _ in range(100):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
