# cause: nonfinite-output

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(32, 8)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
labels = torch.randint(0, 5, (32,))
labels[:16] = -100  # two of four sums are 0, which is no fault
for step in range(8):
    optimizer.zero_grad()
    for part in (slice(0, 8), slice(8, 16), slice(16, 24), slice(24, 32)):
        scores = model(x[part])
        loss = nn.functional.cross_entropy(scores, labels[part], reduction="sum")
        loss = loss + (scores.mean() - 10).log()  # here
        loss.backward()
    optimizer.step()
