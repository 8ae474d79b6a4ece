# cause: learning-rate
# says: A function returned 0 to it, at rate_zero_in_one_branch.py:13, factor

import torch
from torch import nn

torch.manual_seed(0)


def warm_up(optimizer, steps, total):
    def factor(step):
        if step < steps:
            return step // steps  # here
        return (total - step) / (total - steps)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, [factor] * len(optimizer.param_groups))


x, y = torch.randn(32, 8), torch.randn(32, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = warm_up(optimizer, 100, 1000)
for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    scheduler.step()
