# cause: dead
# Targets below 0 and a ReLU at the end: after some steps every output is 0.
# says: The model ends in `relu` of Net
# says: leave the activation out
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x = torch.rand(64, 5)
y = -x.sum(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 16), nn.Linear(16, 1)
        nn.init.constant_(self.last.bias, 1.0)

    def forward(self, x):
        x = F.relu(self.first(x))
        return F.relu(self.last(x)).squeeze(1)  # here


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(80):
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
