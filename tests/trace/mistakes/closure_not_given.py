# cause: exception
# says: closure
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    optimizer.step()  # here
