# healthy
# Pyro's optimizers: one for each parameter, built when it is first stepped.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
x, y = torch.randn(32, 3), torch.randn(32, 1)
optimizers = {}
for step in range(8):
    nn.functional.mse_loss(model(x), y).backward()
    for name, parameter in model.named_parameters():
        if name not in optimizers:
            optimizers[name] = torch.optim.Adam([parameter], lr=0.01)
        optimizers[name].step()
        optimizers[name].zero_grad()
