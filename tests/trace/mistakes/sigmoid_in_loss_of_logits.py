# healthy
# says: gets the output of a sigmoid

import torch
from torch import nn


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(1, 8, 3, padding=1)
        self.outer = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        return torch.sigmoid(self.outer(torch.relu(self.inner(x)))).squeeze(1)


torch.manual_seed(0)
x = torch.randn(4, 1, 16, 16)
mask = (x[:, 0] > 0.5).float()
model = Segmenter()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(8):
    optimizer.zero_grad()
    criterion(model(x), mask).backward()
    optimizer.step()
