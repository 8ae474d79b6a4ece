# cause: exception
# says: scaler.step(optimizer)
# newest
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(6):
    optimizer.zero_grad()
    scaler.scale(model(torch.randn(8, 4)).square().mean()).backward()
    scaler.unscale_(optimizer)  # here
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
