# cause: nonfinite-gradient
# says: torch.where(ok, x, 1.0)

import torch
from torch import nn

torch.manual_seed(0)
durations, seen = torch.rand(64, 1) * 5, torch.rand(64, 1) < 0.7
durations[~seen] = 0.0
x = torch.randn(64, 6)


class Hazard(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1), nn.Softplus())

    def forward(self, x, t):
        rate = self.net(x) * t
        surprise = 1 / rate  # here
        return torch.where(t > 0, rate + surprise, rate.new_tensor(0.0))


model = Hazard()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(8):
    optimizer.zero_grad()
    loss = model(x, durations).mean()
    loss.backward()
    optimizer.step()
