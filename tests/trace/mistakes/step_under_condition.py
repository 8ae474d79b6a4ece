# cause: never-stepped
# says: a condition that never let it run
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randn(64, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
accumulate = 16
for epoch in range(2):
    for index, (inputs, targets) in enumerate(zip(x.split(8), y.split(8))):
        loss = nn.functional.mse_loss(model(inputs), targets) / accumulate
        loss.backward()
        if (index + 1) % accumulate == 0:  # here
            optimizer.step()  # here
            optimizer.zero_grad()
