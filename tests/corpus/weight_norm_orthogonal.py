# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "parametrizations"
# source = "https://docs.pytorch.org/tutorials/intermediate/parametrizations.html"
# optimizer = true
# ///
"""Weight norm, spectral norm, an orthogonal layer and an own symmetric parametrization."""

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

torch.manual_seed(0)


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = parametrizations.weight_norm(nn.Linear(8, 16))
        self.mix = parametrizations.orthogonal(nn.Linear(16, 16, bias=False))
        self.sym = nn.Linear(16, 16)
        parametrize.register_parametrization(self.sym, "weight", Symmetric())
        self.out = parametrizations.spectral_norm(nn.Linear(16, 1))

    def forward(self, x):
        x = torch.tanh(self.inp(x))
        x = torch.tanh(self.sym(self.mix(x)))
        return self.out(x)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(128, 8)
y = x[:, :1] * x[:, 1:2]
for step in range(20):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
