# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Evolution strategies"
# source = "https://openai.com/index/evolution-strategies/"
# optimizer = false
# ///
"""OpenAI's evolution strategy: random directions, weighted by their reward, move the parameters."""

import torch
import torch.nn as nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
states = torch.randn(128, 4)
actions = torch.sin(states[:, :1]) - states[:, 1:2]

npop = 40  # population size
sigma = 0.1  # noise standard deviation
alpha = 0.03  # learning rate


@torch.no_grad()
def reward(w):
    vector_to_parameters(w, policy.parameters())
    return -(policy(states) - actions).pow(2).mean()


w = parameters_to_vector(policy.parameters()).detach()
for i in range(150):
    N = torch.randn(npop, w.numel())  # samples from a normal distribution
    R = torch.stack([reward(w + sigma * n) for n in N])
    A = (R - R.mean()) / R.std()  # standardize the rewards
    w = w + alpha / (npop * sigma) * (N.T @ A)
    if i % 30 == 0:
        print(f"iter {i}. reward: {reward(w).item():.4f}")
vector_to_parameters(w, policy.parameters())
