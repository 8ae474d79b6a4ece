# cause: graph-freed
# says: both use the output of `body`
# says: add the losses
import torch
from torch import nn
torch.manual_seed(0)
x, y = torch.randn(16, 4), torch.randn(16, 1)
body = nn.Linear(4, 8)
heads = nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)])
optimizer = torch.optim.SGD([*body.parameters(), *heads.parameters()], lr=0.05)
for _ in range(6):
    optimizer.zero_grad()
    hidden = torch.tanh(body(x))
    losses = [nn.functional.mse_loss(head(hidden), y) for head in heads]
    for loss in losses:
        loss.backward()  # here
    optimizer.step()
