# cause: zero
# says: subtracted from itself
"""PPO: the old log-probability is the new one, so the ratio is 1 and its gradient cancels."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)
observed, actions, returns = torch.randn(64, 4), torch.randint(3, (64,)), torch.randn(64)
for step in range(8):
    new = Categorical(logits=actor(observed)).log_prob(actions)
    old = new
    values = critic(observed).squeeze(-1)
    advantage = returns - values.detach()
    ratio = (new - old).exp()  # here
    clipped = ratio.clamp(0.8, 1.2)
    policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
    optimizer.zero_grad()
    (policy_loss + nn.functional.mse_loss(values, returns)).backward()
    optimizer.step()
