# cause: nonfinite-output

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(32, 8)
model = nn.Linear(8, 1)


@torch.no_grad()
def reward(weights):
    nn.utils.vector_to_parameters(weights, model.parameters())
    return (model(x).mean() > 10).float()  # here


weights = nn.utils.parameters_to_vector(model.parameters()).detach()
for step in range(8):
    noise = torch.randn(6, weights.numel())
    rewards = torch.stack([reward(weights + 0.1 * each) for each in noise])
    weights = weights + noise.T @ ((rewards - rewards.mean()) / rewards.std())
