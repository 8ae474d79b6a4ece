# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Energy-based models"
# source = "https://uvadlc-notebooks.readthedocs.io/en/latest/tutorial_notebooks/tutorial8/Deep_Energy_Models.html"
# optimizer = true
# ///
"""An energy-based model: Langevin dynamics draws negatives by its own gradient, Adam trains it."""

import torch
import torch.nn as nn

torch.manual_seed(0)
data = torch.randn(512, 2) * 0.2 + torch.tensor([[1.0, 1.0], [-1.0, -1.0]]).repeat(256, 1)
model = nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def generate_samples(model, inp, steps=20, step_size=0.1):
    # Before MCMC: only the gradient of the input is of interest.
    is_training = model.training
    model.eval()
    for p in model.parameters():
        p.requires_grad = False
    inp = inp.detach().requires_grad_()
    for _ in range(steps):
        inp.data.add_(torch.randn_like(inp), alpha=0.05)
        out = -model(inp)
        out.sum().backward()
        inp.data.add_(inp.grad.data, alpha=-step_size)
        inp.grad.detach_()
        inp.grad.zero_()
    # Reactivate gradients for parameters for training
    for p in model.parameters():
        p.requires_grad = True
    model.train(is_training)
    return inp.detach()


for step in range(60):
    real = data[torch.randint(len(data), (64,))]
    fake = generate_samples(model, torch.rand(64, 2) * 4 - 2)
    inp = torch.cat([real, fake], dim=0)
    real_out, fake_out = model(inp).chunk(2, dim=0)
    reg_loss = 0.1 * (real_out**2 + fake_out**2).mean()
    cdiv_loss = fake_out.mean() - real_out.mean()
    loss = reg_loss + cdiv_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"{step}: contrastive divergence {cdiv_loss.item():.4f}")
