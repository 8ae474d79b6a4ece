# cause: detached

import torch
from torch import nn

torch.manual_seed(0)
x, rating = torch.randn(32, 6), torch.randint(0, 5, (32,)).float()

model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(model.parameters())
for step in range(8):
    optimizer.zero_grad()
    scores = model(x)
    predicted = torch.max(scores, 1)[1].float()  # here
    nn.functional.mse_loss(predicted, rating).backward()
    optimizer.step()
