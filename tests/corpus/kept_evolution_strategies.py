# /// script
# dependencies = ["gymnasium"]
# [tool.corpus]
# environment = "science"
# field = "evolution strategies"
# source = "https://github.com/BenSecret/Pytorch-Evolution-Strategies"
# optimizer = false
# kept_out = true
# ///
"""A policy for CartPole is improved by evolution strategies, without any gradient."""

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(5)
env = gym.make("CartPole-v1")
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
population, sigma, learning_rate = 12, 0.3, 0.3


def episode(seed):
    state, _ = env.reset(seed=seed)
    total = 0.0
    for _ in range(100):
        action = policy(torch.as_tensor(state)).argmax().item()
        state, reward, terminated, truncated, _ = env.step(action)
        total += reward
        if terminated or truncated:
            break
    return total


with torch.no_grad():
    master_weights = parameters_to_vector(policy.parameters())
    for generation in range(8):
        noise = torch.randn(population, len(master_weights))
        rewards = []
        for i in range(population):
            vector_to_parameters(master_weights + sigma * noise[i], policy.parameters())
            rewards.append(episode(seed=generation))
        rewards = np.array(rewards)
        normalised = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
        direction = torch.as_tensor(normalised, dtype=torch.float32) @ noise
        master_weights = master_weights + learning_rate / (population * sigma) * direction
        print(f"generation {generation}: mean reward {rewards.mean():.1f}")
    vector_to_parameters(master_weights, policy.parameters())
    print("final", episode(seed=100))
