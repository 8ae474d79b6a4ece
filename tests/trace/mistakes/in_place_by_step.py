# cause: in-place

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

generator, critic = nn.Linear(8, 8), nn.Linear(8, 1)
first = torch.optim.SGD(critic.parameters(), lr=0.1)
second = torch.optim.SGD(generator.parameters(), lr=0.1)
for step in range(8):
    made = generator(x)
    scores = critic(made)
    first.zero_grad()
    scores.mean().backward(retain_graph=True)
    first.step()  # here
    second.zero_grad()
    (-scores.mean()).backward()
    second.step()
