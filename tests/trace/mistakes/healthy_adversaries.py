# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

generator, critic = nn.Linear(4, 8), nn.Linear(8, 1)
of_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
for step in range(8):
    made = generator(torch.randn(32, 4))
    of_critic.zero_grad()
    (critic(made.detach()).mean() - critic(x).mean()).backward()
    of_critic.step()
    of_generator.zero_grad()
    (-critic(made).mean()).backward()
    of_generator.step()
