# healthy
# says: its gradient is exactly zero, but the rest of its layer gets one
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

torch.manual_seed(0)
critic = nn.Sequential(spectral_norm(nn.Linear(2, 8)), nn.LeakyReLU(), spectral_norm(nn.Linear(8, 1)))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4)
for _ in range(8):
    real, fake = torch.randn(16, 2) + 1, torch.randn(16, 2)
    loss = (1 - critic(real)).relu().mean() + (1 + critic(fake)).relu().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
