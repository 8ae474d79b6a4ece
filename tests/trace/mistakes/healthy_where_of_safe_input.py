# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 6), torch.rand(64, 1)
mask = torch.rand(64, 8) < 0.5
mask[:, 0] = True


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.last = nn.Linear(6, 8), nn.Linear(8, 1)

    def forward(self, x):
        scores = self.net(x).masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        safe = torch.where(weights > 0, weights, 1.0)
        self.entropy = torch.where(weights > 0, -weights * safe.log(), 0.0).sum(-1).mean()
        logged = torch.where(weights > 0, weights.detach().log(), 0.0)
        return self.last(weights + logged)


model = Gate()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(8):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y) - 0.01 * model.entropy
    loss.backward()
    optimizer.step()
