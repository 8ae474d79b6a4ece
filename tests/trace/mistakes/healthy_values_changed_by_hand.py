# healthy
"""Weight decay by hand, a look-ahead with slow weights, and weights of one norm: all on purpose."""

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 2)
decayed, ahead, normed = models = [nn.Linear(8, 2) for _ in range(3)]
slow = [parameter.detach().clone() for parameter in ahead.parameters()]
optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in models]
for step in range(8):
    for model, optimizer in zip(models, optimizers):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        for parameter in decayed.parameters():
            parameter.mul_(0.99)
        for weight, parameter in zip(slow, ahead.parameters()):
            weight.lerp_(parameter, 0.5)
            parameter.copy_(weight)
        normed.weight.div_(normed.weight.norm())
