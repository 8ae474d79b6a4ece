# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Adversarial robustness"
# source = "https://adversarial-ml-tutorial.org/adversarial_training/"
# optimizer = true
# ///
"""Adversarial training: PGD moves a perturbation by the sign of its gradient, SGD the network."""

import torch
import torch.nn as nn

torch.manual_seed(0)
X = torch.randn(400, 20)
y = (X @ torch.randn(20) > 0).long()
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
opt = torch.optim.SGD(model.parameters(), lr=1e-1)


def pgd_linf(model, X, y, epsilon=0.1, alpha=0.02, num_iter=5):
    """Construct adversarial examples on the examples X"""
    delta = torch.zeros_like(X, requires_grad=True)
    for t in range(num_iter):
        loss = nn.CrossEntropyLoss()(model(X + delta), y)
        loss.backward()
        delta.data = (delta + alpha * delta.grad.detach().sign()).clamp(-epsilon, epsilon)
        delta.grad.zero_()
    return delta.detach()


for epoch in range(5):
    total_loss = 0.0
    for rows in torch.randperm(400).split(50):
        delta = pgd_linf(model, X[rows], y[rows])
        yp = model(X[rows] + delta)
        loss = nn.CrossEntropyLoss()(yp, y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total_loss += loss.item() * len(rows)
    print(f"epoch {epoch}: adversarial loss {total_loss / 400:.4f}")
