# cause: zero
# says: A contrastive loss needs a batch of several pairs

import torch
from torch import nn

torch.manual_seed(0)

images, texts = nn.Linear(12, 8), nn.Linear(10, 8)
optimizer = torch.optim.Adam([*images.parameters(), *texts.parameters()], lr=0.01)
x, y = torch.randn(16, 12), torch.randn(16, 10)
for i in range(8):
    scores = images(x[i : i + 1]) @ texts(y[i : i + 1]).T
    loss = nn.functional.cross_entropy(scores, torch.arange(1))  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
