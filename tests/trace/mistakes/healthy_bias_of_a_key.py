# healthy
"""A softmax over keys does not depend on their bias: rounding leaves it a tiny gradient."""

import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 8**0.5
        return scores.softmax(-1) @ self.value(x)


model = nn.Sequential(Attention(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(6):
    x = torch.randn(4, 5, 8)
    loss = (model(x).squeeze(-1) - x[..., 0]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
