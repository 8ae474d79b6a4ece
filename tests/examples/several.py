"""A GAN's two optimizers, a gradient scaler where torch has one for CPUs, and a compiled network."""

import sys

import torch
from torch import nn

compiled = "--compile" in sys.argv
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
discriminator = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
if compiled:
    discriminator = torch.compile(discriminator)
optimizers = [torch.optim.Adam(network.parameters(), lr=1e-3) for network in (generator, discriminator)]
scaler = torch.amp.GradScaler("cpu") if hasattr(getattr(torch, "amp", None), "GradScaler") else None


def update(optimizer, loss):
    optimizer.zero_grad()
    if scaler is None:
        loss.backward()
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


for step in range(20):
    real = torch.randn(16, 8)
    fake = generator(torch.randn(16, 4))
    update(optimizers[1], (discriminator(real) - 1).square().mean() + discriminator(fake.detach()).square().mean())
    update(optimizers[0], (discriminator(fake) - 1).square().mean())
print("trained")
