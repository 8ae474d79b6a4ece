# cause: zero
# says: Gumbel-softmax
# The gates are drawn, and a draw has a gradient of zero.
import torch
from torch import nn

torch.manual_seed(0)
gate, head = nn.Linear(10, 10), nn.Linear(10, 1)
optimizer = torch.optim.SGD([*gate.parameters(), *head.parameters()], lr=0.1)
for step in range(8):
    x = torch.randn(32, 10)
    probability = torch.sigmoid(gate(x))
    mask = torch.bernoulli(probability)  # here
    loss = (head(x * mask) - x[:, :1]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
