# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

body, one, other = nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 1)
parameters = [*body.parameters(), *one.parameters(), *other.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.01)
for step in range(8):
    optimizer.zero_grad(set_to_none=False)
    hidden = torch.tanh(body(x))
    (one(hidden) - y).pow(2).mean().backward(retain_graph=True)
    (other(hidden) - y).pow(2).mean().backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
