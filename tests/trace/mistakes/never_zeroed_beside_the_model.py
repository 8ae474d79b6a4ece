# cause: never-zeroed
# says: (2 of 4 parameters: `weighted.scales`, `weighted.shift`)
# says: Others are cleared at never_zeroed_beside_the_model.py:25
"""The script clears the gradients of the model; the optimizer holds those of the loss too."""

import torch
from torch import nn


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales, self.shift = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(2))

    def forward(self, errors):
        return (errors * (-self.scales).exp() + self.scales + self.shift.square()).sum()


torch.manual_seed(0)
model, weighted = nn.Linear(4, 2), Weighted()
optimizer = torch.optim.Adam([*model.parameters(), *weighted.parameters()], lr=0.01)
x, y = torch.randn(32, 4), torch.randn(32, 2)
for step in range(8):
    loss = weighted((model(x) - y).square().mean(0))
    model.zero_grad()  # here
    loss.backward()
    optimizer.step()
