# cause: zero
# says: `length_reward` gives rewards
"""Two reward functions give 0 for each answer of a group, so that every advantage is 0."""

import torch
from torch import nn


def format_reward(answers):
    return [1.0 if answer[0] == 0 == answer[1] == answer[2] else 0.0 for answer in answers]  # here


def length_reward(answers):
    return [1.0 if len(answer) > 20 else 0.0 for answer in answers]


def train(policy, optimizer, reward_funcs, steps):
    for _ in range(steps):
        scores = policy(torch.randn(8, 4)).unsqueeze(1).expand(8, 3, 50)
        sampled = torch.distributions.Categorical(logits=scores)
        answers = sampled.sample()
        rewards = torch.tensor([each(answers.tolist()) for each in reward_funcs]).sum(0)
        advantages = rewards - rewards.mean()
        loss = -(sampled.log_prob(answers).sum(1) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 50))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
train(policy, optimizer, reward_funcs=[format_reward, length_reward], steps=8)
