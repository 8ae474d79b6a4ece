# /// script
# dependencies = ["pytorch-optimizer"]
# [tool.corpus]
# environment = "science"
# field = "Optimizers"
# source = "https://github.com/KellerJordan/Muon"
# optimizer = true
# ///
"""Muon for the matrices and Adam for the rest, side by side."""

import torch
import torch.nn as nn
from pytorch_optimizer import AdamW, Muon

torch.manual_seed(0)
x = torch.randn(256, 16)
y = torch.sin(x @ torch.randn(16, 4))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(16, 64)
        self.body = nn.ModuleList([nn.Linear(64, 64) for _ in range(2)])
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        x = torch.relu(self.inp(x))
        for layer in self.body:
            x = x + torch.relu(layer(x))
        return self.head(x)


model = MLP()
hidden_weights = [p for p in model.body.parameters() if p.ndim >= 2]
nonhidden = [p for p in model.parameters() if not any(p is q for q in hidden_weights)]
optimizers = [
    Muon([dict(params=hidden_weights, use_muon=True)], lr=0.01),
    AdamW(nonhidden, lr=3e-3),
]

for step in range(40):
    rows = torch.randint(256, (64,))
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])
    loss.backward()
    for opt in optimizers:
        opt.step()
    model.zero_grad(set_to_none=True)
    if step % 10 == 0:
        print(f"{step}: loss {loss.item():.4f}")
