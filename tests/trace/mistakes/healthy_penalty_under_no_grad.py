# healthy
# says: a part of the loss, added at healthy_penalty_under_no_grad.py:25, is computed under no_grad
# says: computed under no_grad at healthy_penalty_under_no_grad.py:14
# says: added at healthy_penalty_under_no_grad.py:26

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.no_grad()
def lasso(model):
    return sum(p.abs().sum() for p in model.parameters())


x, y = torch.randn(64, 8), torch.randint(3, (64,))
for step in range(8):
    with torch.no_grad():
        consistency = (model(x + 0.1 * torch.randn_like(x)) - model(x)).square().mean()
    small = lasso(model)
    loss = nn.functional.cross_entropy(model(x), y)
    loss = loss + 1e-3 * small
    loss += 0.1 * consistency
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
