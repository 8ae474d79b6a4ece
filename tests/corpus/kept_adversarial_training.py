# /// script
# dependencies = ["timm"]
# [tool.corpus]
# environment = "vision"
# field = "adversarial training"
# source = "https://adversarial-ml-tutorial.org/adversarial_training/"
# optimizer = true
# kept_out = true
# ///
"""A small ViT of timm is trained on images that PGD has changed."""

import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.rand(64, 3, 32, 32)
y = (X[:, 0].mean((1, 2)) > X[:, 2].mean((1, 2))).long()
train_loader = DataLoader(TensorDataset(X, y), batch_size=16, shuffle=True)
model = timm.create_model(
    "vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=48, depth=3, num_heads=3,
    num_classes=2,
)


def pgd_linf(model, X, y, epsilon=0.03, alpha=0.01, num_iter=3):
    """Construct PGD adversarial examples on the examples X"""
    delta = torch.zeros_like(X, requires_grad=True)
    for t in range(num_iter):
        loss = F.cross_entropy(model(X + delta), y)
        loss.backward()
        delta.data = (delta + alpha * delta.grad.detach().sign()).clamp(-epsilon, epsilon)
        delta.grad.zero_()
    return delta.detach()


def epoch_adversarial(loader, model, attack, opt):
    total_loss, total_err = 0.0, 0.0
    model.train()
    for X, y in loader:
        delta = attack(model, X, y)
        opt.zero_grad()
        yp = model(X + delta)
        loss = nn.CrossEntropyLoss()(yp, y)
        loss.backward()
        opt.step()
        total_err += (yp.max(dim=1)[1] != y).sum().item()
        total_loss += loss.item() * X.shape[0]
    return total_err / len(loader.dataset), total_loss / len(loader.dataset)


def epoch(loader, model):
    total_err = 0.0
    model.eval()
    with torch.no_grad():
        for X, y in loader:
            total_err += (model(X).max(dim=1)[1] != y).sum().item()
    return total_err / len(loader.dataset)


opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for t in range(3):
    test_err = epoch(train_loader, model)
    train_err, train_loss = epoch_adversarial(train_loader, model, pgd_linf, opt)
    print(f"{t}\t{train_loss:.4f}\t{train_err:.3f}\t{test_err:.3f}")
