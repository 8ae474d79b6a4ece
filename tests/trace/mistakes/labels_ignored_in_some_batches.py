# cause: labels-ignored
# says: In 8 of 16 calls of the loss every label was -100

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(32, 8)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
labels = torch.randint(0, 5, (32,))
labels[:16] = -100  # here
for step in range(8):
    optimizer.zero_grad()
    for part in (slice(0, 8), slice(8, 16), slice(16, 24), slice(24, 32)):
        loss = nn.functional.cross_entropy(model(x[part]), labels[part])  # here
        loss.backward()
    optimizer.step()
