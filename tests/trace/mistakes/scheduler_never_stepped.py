# cause: learning-rate
# says: no scheduler was ever stepped
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)  # here
for step in range(20):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
