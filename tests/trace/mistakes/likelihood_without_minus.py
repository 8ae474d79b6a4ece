# healthy
# says: Put a minus before it

import torch
from torch import nn

torch.manual_seed(0)
values = 3 + 2 * torch.randn(256)
mean, log_std = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam([mean, log_std], lr=0.01)
for _ in range(8):
    optimizer.zero_grad()
    loss = torch.distributions.Normal(mean, log_std.exp()).log_prob(values).mean()  # here
    loss.backward()
    optimizer.step()
