# healthy
# One layer of many dies later.
# says: `gate.weight`, `gate.bias`: the gradient was exactly zero whenever it was looked at
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.gate, self.last = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(32, 1)

    def forward(self, x):
        parts = torch.tanh(self.first(x)), torch.relu(self.gate(x))
        return self.last(torch.cat(parts, 1))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(40):
    x = torch.randn(32, 8)
    if step == 8:
        net.gate.bias.data -= 60
    optimizer.zero_grad(set_to_none=False)
    nn.functional.mse_loss(net(x), x.abs().sum(1, keepdim=True)).backward()
    optimizer.step()
