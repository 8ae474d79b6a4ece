# /// script
# dependencies = ["torchsde"]
# [tool.corpus]
# environment = "science"
# field = "Differential equations"
# source = "https://github.com/google-research/torchsde/blob/master/DOCUMENTATION.md"
# optimizer = true
# ///
"""A neural stochastic differential equation fits the spread of noisy paths by its adjoint."""

import torch
import torchsde

torch.manual_seed(0)
batch_size, state_size, brownian_size = 32, 2, 2
ts = torch.linspace(0, 1, 8)
y0 = torch.full((batch_size, state_size), 0.1)
target_mean = torch.stack([torch.sin(2 * ts), torch.cos(2 * ts)], dim=1)


class SDE(torch.nn.Module):
    noise_type = "diagonal"
    sde_type = "ito"

    def __init__(self):
        super().__init__()
        self.mu = torch.nn.Sequential(
            torch.nn.Linear(state_size + 1, 24), torch.nn.Tanh(), torch.nn.Linear(24, state_size)
        )
        self.sigma = torch.nn.Linear(state_size, state_size)

    # Drift
    def f(self, t, y):
        return self.mu(torch.cat([y, t.expand(y.shape[0], 1)], dim=1))

    # Diffusion
    def g(self, t, y):
        return 0.3 * torch.sigmoid(self.sigma(y))


sde = SDE()
optimizer = torch.optim.Adam(sde.parameters(), lr=2e-2)

for step in range(12):
    optimizer.zero_grad()
    ys = torchsde.sdeint_adjoint(sde, y0, ts, method="euler", dt=0.1)
    loss = (ys.mean(1) - target_mean).pow(2).mean() + (ys.std(1) - 0.1).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step % 4 == 0:
        print(f"{step}: loss {loss.item():.4f}")
