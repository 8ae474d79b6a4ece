# healthy
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, inputs, labels=None):
        return self.layer(inputs).square().mean()


torch.manual_seed(0)
model, inputs = Detector(), torch.randn(3, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for labels in ([{"boxes": inputs}], None, "text", torch.empty(2, 3, dtype=torch.long), *[None] * 4):
    optimizer.zero_grad()
    model(inputs, labels=labels).backward()
    optimizer.step()
