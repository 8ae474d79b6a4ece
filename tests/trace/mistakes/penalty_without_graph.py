# cause: detached
# WGAN-GP questions: the gradient penalty is computed without create_graph=True.
# says: create_graph=True
import torch
import torch.nn as nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
D = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
opt_g = torch.optim.Adam(G.parameters(), 1e-4, betas=(0.0, 0.9))
opt_d = torch.optim.Adam(D.parameters(), 1e-4, betas=(0.0, 0.9))


def gradient_penalty(real, fake):
    alpha = torch.rand(real.size(0), 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = D(mixed)
    grads = torch.autograd.grad(score, mixed, torch.ones_like(score))[0]  # here
    return ((grads.norm(2, dim=1) - 1) ** 2).mean()


for step in range(25):
    real = torch.randn(64, 2) * 0.5 + 1
    fake = G(torch.randn(64, 8)).detach()
    loss_d = D(fake).mean() - D(real).mean() + 10 * gradient_penalty(real, fake)
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    if step % 5 == 4:
        loss_g = -D(G(torch.randn(64, 8))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
