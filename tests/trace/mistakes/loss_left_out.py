# cause: other-parameters

import torch
from torch import nn


class CenterLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(3, 4))

    def forward(self, features, labels):
        return (features - self.centers[labels]).square().mean()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
criterion = CenterLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # here
for step in range(8):
    features, labels = torch.randn(6, 4), torch.randint(3, (6,))
    optimizer.zero_grad()
    criterion(model(features), labels).backward()
    optimizer.step()
