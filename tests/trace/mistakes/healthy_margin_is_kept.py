# healthy
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), 0.05)
x = torch.cat([torch.randn(32, 2) + 6, torch.randn(32, 2) - 6])
y = torch.cat([torch.ones(32, 1), -torch.ones(32, 1)])
for step in range(200):
    loss = (1 - y * model(x)).clamp(min=0).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
