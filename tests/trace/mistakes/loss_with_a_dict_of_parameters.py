# cause: other-parameters
"""The loss weighs its parts by a ParameterDict of its own, which no optimizer holds."""

import torch
from torch import nn


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in "ab"})

    def forward(self, parts):
        return sum(part * (-self.scales[n]).exp() + self.scales[n] for n, part in parts.items())


torch.manual_seed(0)
model, weighted = nn.Linear(4, 2), Weighted()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # here
x, y = torch.randn(32, 4), torch.randn(32, 2)
for step in range(8):
    a, b = (model(x) - y).square().mean(0)
    loss = weighted({"a": a, "b": b})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
