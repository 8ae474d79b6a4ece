# cause: detached rebuilt

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

body, actor, critic = nn.Linear(8, 16), nn.Linear(16, 4), nn.Linear(16, 1)
parameters = [*body.parameters(), *actor.parameters(), *critic.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    hidden = torch.relu(body(x))
    policy_losses = [actor(row).logsumexp(0) for row in hidden]
    value_loss = nn.functional.mse_loss(critic(hidden), y)
    loss = torch.tensor(policy_losses, requires_grad=True).mean() + value_loss  # here
    loss.backward()
    optimizer.step()
