# healthy
"""A likelihood with a minus, then one whose optimizer makes it larger."""

import torch
from torch import nn

torch.manual_seed(0)
values = 3 + 2 * torch.randn(256)
for maximize in (False, True):
    mean, log_std = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.Adam([mean, log_std], lr=0.01, maximize=maximize)
    for _ in range(4):
        optimizer.zero_grad()
        fit = torch.distributions.Normal(mean, log_std.exp()).log_prob(values).mean()
        (fit if maximize else -fit).backward()
        optimizer.step()
