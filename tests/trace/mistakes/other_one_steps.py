# cause: never-stepped
# An actor and a critic: the optimizer of the actor is stepped twice, and that of the critic never.
# says: Another optimizer, Adam, made 16 steps; it is built at other_one_steps.py:
import torch
from torch import nn

torch.manual_seed(0)
states, rewards = torch.randn(32, 4), torch.randn(32, 1)
actor, critic = nn.Linear(4, 2), nn.Linear(6, 1)
of_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)  # here


def update():
    actions = actor(states)
    of_critic.zero_grad()
    nn.functional.mse_loss(critic(torch.cat([states, actions.detach()], 1)), rewards).backward()
    of_actor.step()  # here

    of_actor.zero_grad()
    (-critic(torch.cat([states, actions], 1)).mean()).backward()
    of_actor.step()


for step in range(8):
    update()
