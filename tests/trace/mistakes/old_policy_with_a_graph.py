# cause: dead zero-gradient zero
# says: or the parts of its gradient cancel out
# says: their gradients cancel
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))


def act(states):
    policy = Categorical(logits=actor(states))
    actions = policy.sample()
    return actions, policy.log_prob(actions)


def evaluate(states, actions):
    return Categorical(logits=actor(states)).log_prob(actions), critic(states)[:, 0]  # here


optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4)
for _ in range(8):
    states = torch.randn(32, 4)
    actions, old = act(states)
    rewards = (actions == (states[:, 0] > 0).long()).float()
    new, values = evaluate(states, actions)
    advantages = rewards - values.detach()
    ratio = (new - old).exp()
    policy_loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    loss = policy_loss + 0.5 * (rewards - values).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
