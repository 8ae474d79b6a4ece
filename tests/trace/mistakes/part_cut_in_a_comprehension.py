# cause: detached
"""The loss of hard masks has no graph. The loop's other comprehensions use the same variable."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(32, 8)
y = (x[:, :2] > 0).float()

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    outputs = model(x)
    masks = torch.stack([(i.detach() > 0).float() for i in outputs])  # here
    loss = nn.functional.binary_cross_entropy_with_logits(outputs, y)
    loss = loss + nn.functional.mse_loss(masks, y)
    loss.backward()
    optimizer.step()
    outputs = [i.argmax() for i in model(x)]
