# healthy

import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12)), nn.Linear(12, 3)
model = nn.Sequential(encoder, head)
x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
encoder.requires_grad_(False)
optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
for _ in range(6):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    schedule.step()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for epoch in range(9):
    if epoch == 3:
        encoder[2].requires_grad_(True)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
