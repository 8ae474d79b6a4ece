# healthy
"""The energy distance compares each sample with each value, and with each other sample."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(generator.parameters(), lr=0.01)
for step in range(20):
    values = 3 + torch.randn(64)
    samples = generator(torch.randn(64, 4)).squeeze(1)
    apart = (samples.unsqueeze(1) - values).abs().mean()
    spread = (samples[:, None] - samples).abs().mean()
    loss = apart - 0.5 * spread
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
