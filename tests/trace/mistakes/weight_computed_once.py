# cause: graph-freed
# says: computed once
# says: Compute it anew in each step
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 6)
y = x @ torch.rand(6)
logits = nn.Parameter(torch.zeros(6))
bias = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam([logits, bias], lr=0.1)
mixture = torch.softmax(logits, 0)  # here
for epoch in range(8):
    loss = (x @ mixture + bias - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
