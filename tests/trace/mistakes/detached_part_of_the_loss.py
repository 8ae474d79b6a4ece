# cause: detached
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model, head = nn.Linear(4, 3), nn.Linear(4, 3)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-2)
x = torch.randn(16, 4)
for _ in range(8):
    h = head(x)
    part = F.mse_loss(h.detach(), torch.randn(16, 3))  # here
    loss = F.mse_loss(model(x) + h, torch.ones(16, 3)) + part
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
