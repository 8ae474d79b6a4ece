# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Generative adversarial networks"
# source = "https://pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html"
# optimizer = true
# ///
"""DCGAN on small random blobs: the discriminator's turn on a detached batch, then the generator's."""

import torch
import torch.nn as nn
import torch.optim as optim

torch.manual_seed(999)
nz, ngf, ndf = 16, 16, 16
real_label, fake_label = 1.0, 0.0


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


netG = nn.Sequential(
    nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
    nn.BatchNorm2d(ngf * 2),
    nn.ReLU(True),
    nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
    nn.BatchNorm2d(ngf),
    nn.ReLU(True),
    nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
    nn.Tanh(),
)
netD = nn.Sequential(
    nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
    nn.BatchNorm2d(ndf * 2),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
    nn.Sigmoid(),
)
netG.apply(weights_init)
netD.apply(weights_init)

criterion = nn.BCELoss()
optimizerD = optim.Adam(netD.parameters(), lr=0.0002, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=0.0002, betas=(0.5, 0.999))

grid = torch.linspace(-1, 1, 16)
for i in range(24):
    center = torch.rand(16, 2, 1, 1) - 0.5
    real = torch.tanh(
        2 - 6 * ((grid[:, None] - center[:, 0]) ** 2 + (grid[None, :] - center[:, 1]) ** 2)
    ).unsqueeze(1)

    # (1) Update D network: maximize log(D(x)) + log(1 - D(G(z)))
    netD.zero_grad()
    output = netD(real).view(-1)
    errD_real = criterion(output, torch.full((16,), real_label))
    errD_real.backward()
    noise = torch.randn(16, nz, 1, 1)
    fake = netG(noise)
    output = netD(fake.detach()).view(-1)
    errD_fake = criterion(output, torch.full((16,), fake_label))
    errD_fake.backward()
    optimizerD.step()

    # (2) Update G network: maximize log(D(G(z)))
    netG.zero_grad()
    output = netD(fake).view(-1)
    errG = criterion(output, torch.full((16,), real_label))
    errG.backward()
    optimizerG.step()
    if i % 6 == 0:
        print(f"[{i}] Loss_D: {(errD_real + errD_fake).item():.4f} Loss_G: {errG.item():.4f}")
