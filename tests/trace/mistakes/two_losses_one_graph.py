# cause: graph-freed
# says: add the losses and call backward once, or pass retain_graph=True
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 4)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    (0.1 * loss).backward()  # here
    optimizer.step()
