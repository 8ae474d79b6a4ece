# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return -ctx.strength * grad_output, None


features = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
domain = nn.Linear(16, 1)
optimizer = torch.optim.SGD([*features.parameters(), *domain.parameters()], lr=0.01)
for step in range(8):
    optimizer.zero_grad()
    strength = step / 8  # 0 in the first step
    nn.functional.mse_loss(domain(Reversed.apply(features(x), strength)), y).backward()
    optimizer.step()
