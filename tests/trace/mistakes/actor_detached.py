# cause: detached
# https://github.com/thu-ml/tianshou/issues/29 and DDPG questions: the actor's action is detached before the critic
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


class Actor(nn.Module):
    def __init__(self, s, a):
        super().__init__()
        self.l1, self.l2 = nn.Linear(s, 32), nn.Linear(32, a)

    def forward(self, s):
        return torch.tanh(self.l2(F.relu(self.l1(s))))


class Critic(nn.Module):
    def __init__(self, s, a):
        super().__init__()
        self.l1, self.l2 = nn.Linear(s + a, 32), nn.Linear(32, 1)

    def forward(self, s, a):
        return self.l2(F.relu(self.l1(torch.cat([s, a], 1))))


class DDPG:
    def __init__(self, s=5, a=2, tau=0.005, gamma=0.99):
        self.actor, self.critic = Actor(s, a), Critic(s, a)
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-4)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), weight_decay=1e-2)
        self.tau, self.gamma = tau, gamma

    def train(self, s, a, s2, r):
        with torch.no_grad():
            target_Q = r + self.gamma * self.critic_target(s2, self.actor_target(s2))
        critic_loss = F.mse_loss(self.critic(s, a), target_Q)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()
        action = self.actor(s).detach()  # here
        actor_loss = -self.critic(s, action).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()
        for net, target in ((self.critic, self.critic_target), (self.actor, self.actor_target)):
            for p, tp in zip(net.parameters(), target.parameters()):
                tp.data.copy_(self.tau * p.data + (1 - self.tau) * tp.data)
        return actor_loss.item()


agent = DDPG()
for i in range(30):
    s, a = torch.randn(32, 5), torch.rand(32, 2) * 2 - 1
    al = agent.train(s, a, torch.randn(32, 5), -(a - s[:, :2]).pow(2).sum(1, keepdim=True))
print(al)
