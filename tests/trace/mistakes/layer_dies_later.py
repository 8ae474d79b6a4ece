# cause: dead
# Dying ReLU questions: one batch with an outlier, long after the first steps, and no layer learns any more.
# says: Layers have died
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)  # here
for step in range(200):
    x = torch.randn(32, 8)
    y = x.abs().sum(1, keepdim=True) - (300 if step == 8 else 0)
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
