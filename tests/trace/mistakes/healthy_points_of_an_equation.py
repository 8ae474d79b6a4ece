# healthy
import torch
from torch import nn

torch.manual_seed(0)


class Physics(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
        self.points = torch.rand(32, 1, requires_grad=True)
        self.seen = None

    def forward(self):
        u = self.seen = self.net(self.points)
        slope = torch.autograd.grad(u.sum(), self.points, create_graph=True)[0]
        return (slope + u).pow(2).mean() + (self.net(torch.zeros(1, 1)) - 1).pow(2).mean()


model = Physics()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    optimizer.zero_grad()
    loss = model()
    loss.backward()
    optimizer.step()
