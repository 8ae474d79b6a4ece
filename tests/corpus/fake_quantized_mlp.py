# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "quantisation-aware training"
# source = "https://docs.pytorch.org/docs/stable/notes/extending.html"
# optimizer = true
# ///
"""Quantisation-aware training: an own straight-through rounding, and fake quantisation."""

import torch
from torch import nn

torch.manual_seed(0)


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


class QuantLinear(nn.Linear):
    def forward(self, x):
        scale = self.weight.detach().abs().max() / 7
        weight = Round.apply(self.weight / scale) * scale
        return nn.functional.linear(x, weight, self.bias)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = QuantLinear(12, 32)
        self.act = torch.ao.quantization.FakeQuantize(quant_min=0, quant_max=255)
        self.fc2 = QuantLinear(32, 3)

    def forward(self, x):
        return self.fc2(self.act(torch.relu(self.fc1(x))))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
x = torch.randn(256, 12)
y = x[:, :3].argmax(1)
for step in range(24):
    rows = torch.randint(256, (64,))
    loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
