# cause: other-parameters
# says: Give the optimizer `position` too, as a further group
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(4))
        self.layer = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.layer(x + self.position) * self.scale


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.Adam([*net.layer.parameters(), net.scale], lr=1e-2)  # here
x, y = torch.randn(16, 4), torch.randn(16, 4)
for _ in range(8):
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
