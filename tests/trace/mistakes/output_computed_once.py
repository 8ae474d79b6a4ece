# cause: graph-freed
# says: computed once
# says: Compute it anew in each step
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
encoder = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
head = nn.Linear(16, 3)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
features = encoder(x)  # here
for epoch in range(8):
    loss = nn.functional.cross_entropy(head(features), y)
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
