# cause: other-parameters
# says: What a copy learns is lost when the next one is made
import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(8):
    loss = 0
    for _ in range(3):
        learner = copy.deepcopy(model)  # here
        inner = nn.functional.mse_loss(learner(x), y)
        for p, g in zip(learner.parameters(), torch.autograd.grad(inner, learner.parameters())):
            p.data -= 0.1 * g
        loss = loss + nn.functional.mse_loss(learner(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
