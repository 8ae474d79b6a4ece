# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Generative adversarial networks"
# source = "https://github.com/eriklindernoren/PyTorch-GAN/blob/master/implementations/wgan_gp/wgan_gp.py"
# optimizer = true
# ///
"""WGAN with gradient penalty: five turns of the critic for one turn of the generator."""

import torch
import torch.nn as nn
from torch import autograd

torch.manual_seed(0)
latent_dim, n_critic, lambda_gp = 8, 5, 10
data = torch.randn(640, 2) * 0.3 + torch.tensor([2.0, -1.0])

generator = nn.Sequential(nn.Linear(latent_dim, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

optimizer_G = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.9))


def compute_gradient_penalty(D, real_samples, fake_samples):
    alpha = torch.rand(real_samples.size(0), 1)
    interpolates = (alpha * real_samples + (1 - alpha) * fake_samples).requires_grad_(True)
    d_interpolates = D(interpolates)
    gradients = autograd.grad(
        outputs=d_interpolates,
        inputs=interpolates,
        grad_outputs=torch.ones_like(d_interpolates),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


for epoch in range(8):
    for i, real_imgs in enumerate(data[torch.randperm(len(data))].split(64)):
        # Train Discriminator
        optimizer_D.zero_grad()
        z = torch.randn(real_imgs.shape[0], latent_dim)
        fake_imgs = generator(z).detach()
        real_validity = discriminator(real_imgs)
        fake_validity = discriminator(fake_imgs)
        gradient_penalty = compute_gradient_penalty(discriminator, real_imgs, fake_imgs)
        d_loss = -real_validity.mean() + fake_validity.mean() + lambda_gp * gradient_penalty
        d_loss.backward()
        optimizer_D.step()

        # Train the generator every n_critic steps
        if i % n_critic == 0:
            optimizer_G.zero_grad()
            fake_imgs = generator(z)
            g_loss = -discriminator(fake_imgs).mean()
            g_loss.backward()
            optimizer_G.step()
    print(f"[Epoch {epoch}] [D loss: {d_loss.item():.3f}] [G loss: {g_loss.item():.3f}]")
