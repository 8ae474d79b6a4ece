# healthy

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
critic = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
on_real = torch.optim.Adam(critic.parameters(), lr=2e-3)
on_fake = torch.optim.Adam(critic.parameters(), lr=1e-3)

for step in range(8):
    real, fake = 3 + torch.randn(32, 1), generator(torch.randn(32, 4))
    on_real.zero_grad()
    nn.functional.softplus(-critic(real)).mean().backward()
    on_real.step()

    on_fake.zero_grad()
    generator.zero_grad()
    nn.functional.softplus(critic(fake)).mean().backward()
    on_fake.step()
    with torch.no_grad():  # against the critic
        for parameter in generator.parameters():
            parameter += 1e-2 * parameter.grad
