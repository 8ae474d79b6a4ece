# cause: inference-mode
# says: Inference mode was entered by `torch.inference_mode()`

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)
encoder = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
with torch.inference_mode():  # here
    codes = [encoder(part) for part in x.split(8)]

head = nn.Linear(16, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for code, wanted in zip(codes, y.split(8)):
    optimizer.zero_grad()
    nn.functional.mse_loss(head(code), wanted).backward()
    optimizer.step()
