# healthy
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal

torch.manual_seed(0)
OBS, ACT = 6, 2


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(OBS, 32), nn.ReLU())
        self.mean = nn.Linear(32, ACT)
        self.log_std = nn.Linear(32, ACT)

    def forward(self, s):
        h = self.trunk(s)
        return self.mean(h), self.log_std(h).clamp(-5, 2)

    def sample(self, s):
        mean, log_std = self(s)
        normal = Normal(mean, log_std.exp())
        x = normal.rsample()
        y = torch.tanh(x)
        logp = normal.log_prob(x) - torch.log(1 - y.pow(2) + 1e-6)
        return y, logp.sum(1, keepdim=True)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(OBS + ACT, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, s, a):
        return self.net(torch.cat([s, a], 1))


actor, q1, q2 = Actor(), Critic(), Critic()
t1, t2 = copy.deepcopy(q1), copy.deepcopy(q2)
log_alpha = torch.zeros(1, requires_grad=True)
q_opt = torch.optim.Adam([*q1.parameters(), *q2.parameters()], 1e-3)
actor_opt = torch.optim.Adam(actor.parameters(), 3e-4)
alpha_opt = torch.optim.Adam([log_alpha], 3e-4)

for step in range(30):
    s, s2 = torch.randn(16, OBS), torch.randn(16, OBS)
    a, r = torch.rand(16, ACT) * 2 - 1, torch.randn(16, 1)
    alpha = log_alpha.exp().detach()
    with torch.no_grad():
        a2, logp2 = actor.sample(s2)
        target = r + 0.99 * (torch.min(t1(s2, a2), t2(s2, a2)) - alpha * logp2)
    q_loss = F.mse_loss(q1(s, a), target) + F.mse_loss(q2(s, a), target)
    q_opt.zero_grad()
    q_loss.backward()
    q_opt.step()

    new_a, logp = actor.sample(s)
    actor_loss = (alpha * logp - torch.min(q1(s, new_a), q2(s, new_a))).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()

    alpha_loss = -(log_alpha * (logp.detach() - ACT)).mean()
    alpha_opt.zero_grad()
    alpha_loss.backward()
    alpha_opt.step()
    for q, t in ((q1, t1), (q2, t2)):
        for p, tp in zip(q.parameters(), t.parameters()):
            tp.data.mul_(0.995).add_(p.data, alpha=0.005)
