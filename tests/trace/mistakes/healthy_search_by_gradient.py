# healthy
# Evolution strategies: the parameters are frozen, their gradient is an estimate, and Adam steps.
import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).requires_grad_(False)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.05)
x = torch.randn(32, 3)
for generation in range(8):
    noises, rewards = [], []
    for _ in range(6):
        noise = [0.1 * torch.randn_like(p) for p in policy.parameters()]
        for p, n in zip(policy.parameters(), noise):
            p.add_(n)
        rewards.append(-((policy(x) - x.sum(1, keepdim=True)) ** 2).mean())
        for p, n in zip(policy.parameters(), noise):
            p.sub_(n)
        noises.append(noise)
    rewards = torch.stack(rewards)
    for i, p in enumerate(policy.parameters()):
        p.grad = -sum((r - rewards.mean()) * n[i] for r, n in zip(rewards, noises))
    optimizer.step()
