# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


class Student(nn.Module):
    def __init__(self, teacher):
        super().__init__()
        self.teacher = [teacher]
        self.perceptual = [nn.Linear(1, 4).eval()]
        self.body = nn.Linear(8, 1)

    def forward(self, x):
        with torch.no_grad():
            target = self.teacher[0](x)
        out = self.body(x)
        return nn.functional.mse_loss(self.perceptual[0](out), self.perceptual[0](target))


model = Student(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    optimizer.zero_grad()
    model(x).backward()
    optimizer.step()
