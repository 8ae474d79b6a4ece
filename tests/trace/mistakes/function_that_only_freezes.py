# cause: frozen
# says: got gradients before
"""The helper cannot unfreeze the critic any more: the flag meets the parameter's own."""

import torch
from torch import nn
from torch.nn.functional import softplus


def switch(module: nn.Module, flag: bool) -> None:
    for parameter in module.parameters():
        parameter.requires_grad = flag and parameter.requires_grad  # here


torch.manual_seed(0)
maker, critic = nn.Linear(2, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
first = torch.optim.Adam(maker.parameters(), lr=0.01)
second = torch.optim.Adam(critic.parameters(), lr=0.01)
x = torch.randn(32, 8)
for step in range(8):
    switch(critic, True)
    fake = maker(torch.randn(32, 2)).detach()
    second.zero_grad()
    (softplus(critic(fake)).mean() + softplus(-critic(x)).mean()).backward()
    second.step()
    switch(critic, False)
    first.zero_grad()
    softplus(-critic(maker(torch.randn(32, 2)))).mean().backward()
    first.step()
