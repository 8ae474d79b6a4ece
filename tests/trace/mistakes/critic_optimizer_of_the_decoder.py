# cause: other-parameters
# says: Two optimizers hold the same parameters
"""The second optimizer got the decoder again, which the first one has beside the encoder."""

import itertools

import torch
from torch import nn


def switch(module: nn.Module, flag: bool) -> None:
    for parameter in module.parameters():
        parameter.requires_grad_(flag)


torch.manual_seed(0)
encoder, decoder, critic = nn.Linear(8, 2), nn.Linear(2, 8), nn.Linear(8, 1)
both = itertools.chain(encoder.parameters(), decoder.parameters())
first = torch.optim.Adam(both, lr=0.01)
second = torch.optim.Adam(decoder.parameters(), lr=0.01)  # here
x = torch.randn(32, 8)
for step in range(12):
    switch(critic, True)
    fake = decoder(torch.randn(32, 2)).detach()
    second.zero_grad()
    (critic(fake).mean() - critic(x).mean()).backward()
    second.step()
    switch(critic, False)
    first.zero_grad()
    made = decoder(encoder(x))
    ((made - x).square().mean() - 0.1 * critic(made).mean()).backward()
    first.step()
