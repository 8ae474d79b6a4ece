# healthy
# says: gets the output of a softmax
"""Under autocast the softmax gives bfloat16, and float() makes it float32 for the loss."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(-1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(64, 8), torch.randint(3, (64,))
for step in range(8):
    with torch.autocast("cpu", torch.bfloat16):
        scores = model(x)
    loss = nn.functional.cross_entropy(scores.float(), y)  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
