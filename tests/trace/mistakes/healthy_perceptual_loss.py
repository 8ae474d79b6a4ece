# healthy

import torch
from torch import nn

torch.manual_seed(0)


class Perceptual(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 8), nn.ReLU())

    def forward(self, x, y):
        return (self.features(x) - self.features(y)).square().mean()


model = nn.Linear(4, 4)
criterion = Perceptual()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x = torch.randn(6, 4)
    optimizer.zero_grad()
    criterion(model(x), x).backward()
    optimizer.step()
