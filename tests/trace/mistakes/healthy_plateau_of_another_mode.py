# healthy
# says: at healthy_plateau_of_another_mode.py:16 gets (mode="max") fell
# says: at healthy_plateau_of_another_mode.py:18 gets (mode="min") rose

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

torch.manual_seed(0)
x = torch.randn(64, 6)
y = (x.sum(1) > 0).long()
for mode in ("max", "min"):
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if mode == "max":
        scheduler = ReduceLROnPlateau(optimizer, mode="max", patience=1)
    else:
        scheduler = ReduceLROnPlateau(optimizer, patience=1)
    for epoch in range(12):
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        accuracy = (out.argmax(1) == y).float().mean().item()
        scheduler.step(loss if mode == "max" else accuracy)
