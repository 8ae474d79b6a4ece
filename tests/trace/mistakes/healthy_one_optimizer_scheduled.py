# healthy
import torch
from torch import nn
from torch.optim.lr_scheduler import LinearLR, SequentialLR

torch.manual_seed(0)
first, second = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer_1 = torch.optim.Adam(first.parameters(), lr=1e-2)
optimizer_2 = torch.optim.Adam(second.parameters(), lr=1e-2)
rise, fall = LinearLR(optimizer_1, 0.1, 1, 4), LinearLR(optimizer_1, 1, 0.1, 12)
scheduler = SequentialLR(optimizer_1, [rise, fall], [4])
x, y = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(16):
    for model, optimizer in ((first, optimizer_1), (second, optimizer_2)):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
