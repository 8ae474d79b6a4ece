# healthy
# newest

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
x, y = torch.randn(32, 8), torch.randn(32, 1)
for step in range(8):
    optimizer.zero_grad()
    scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
    for parameter in model.parameters():
        parameter.grad.data.div_(scaler.get_scale())
    optimizer.step()
