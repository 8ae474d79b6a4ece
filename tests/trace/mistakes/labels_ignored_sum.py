# cause: labels-ignored

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss(ignore_index=0, reduction="sum")
labels = torch.zeros(32, dtype=torch.long)  # here
for step in range(8):
    optimizer.zero_grad()
    loss = criterion(model(x), labels)  # here
    loss.backward()
    optimizer.step()
