# cause: nonfinite-output
# says: rows that are all minus infinity

import torch
from torch import nn

torch.manual_seed(0)
sets, y = torch.randn(8, 5, 6), torch.randn(8, 1)
sizes = torch.tensor([5, 3, 4, 0, 2, 1, 5, 4])
there = torch.arange(5) < sizes[:, None]


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.value, self.last = nn.Linear(6, 1), nn.Linear(6, 8), nn.Linear(8, 1)

    def forward(self, sets):
        scores = self.score(sets).squeeze(-1)
        scores = scores.masked_fill(~there, -torch.inf)
        weights = nn.functional.softmax(scores, dim=1)  # here
        return self.last(torch.einsum("bn,bnd->bd", weights, self.value(sets)))


model = Pool()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(sets), y).backward()
    optimizer.step()
