# cause: not-trained
# says: The closure that
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)


def closure():  # here
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    return loss


for _ in range(6):
    optimizer.step(closure)  # here
