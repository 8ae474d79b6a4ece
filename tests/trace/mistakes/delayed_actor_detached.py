# cause: detached
# TD3: the actor comes later than the critic, and its action is detached.
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
OBS, ACT = 6, 2


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(OBS, 32), nn.ReLU(), nn.Linear(32, ACT), nn.Tanh())

    def forward(self, s):
        return self.net(s)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(OBS + ACT, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, s, a):
        return self.net(torch.cat([s, a], 1))


actor, critic = Actor(), Critic()
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
actor_opt = torch.optim.Adam(actor.parameters(), 1e-4)
critic_opt = torch.optim.Adam(critic.parameters(), 1e-3)

for step in range(30):
    s, s2 = torch.randn(16, OBS), torch.randn(16, OBS)
    a, r = torch.rand(16, ACT) * 2 - 1, torch.randn(16, 1)
    with torch.no_grad():
        target = r + 0.99 * critic_target(s2, actor_target(s2))
    critic_loss = F.mse_loss(critic(s, a), target)
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    if step % 2 == 0: continue
    action = actor(s).detach()  # here
    actor_loss = -critic(s, action).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    for p, t in zip(actor.parameters(), actor_target.parameters()):
        t.data.mul_(0.995).add_(p.data, alpha=0.005)
    for p, t in zip(critic.parameters(), critic_target.parameters()):
        t.data.mul_(0.995).add_(p.data, alpha=0.005)
