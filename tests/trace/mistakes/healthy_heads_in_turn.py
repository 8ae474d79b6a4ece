# healthy
# Heads that are trained one after the other; the gradients of the others stay, and are zero.
import torch
from torch import nn

torch.manual_seed(0)
body, heads = nn.Linear(6, 16), nn.ModuleList(nn.Linear(16, 2) for _ in range(4))
optimizer = torch.optim.SGD([*heads.parameters(), *body.parameters()], lr=0.05)
x, labels = torch.randn(32, 6), torch.randint(0, 2, (4, 32))
for task in range(-1, 4):
    for step in range(4 if task < 0 else 25):
        optimizer.zero_grad(set_to_none=False)
        tasks = range(4) if task < 0 else [task]
        losses = [nn.functional.cross_entropy(heads[i](body(x)), labels[i]) for i in tasks]
        sum(losses).backward()
        nn.utils.clip_grad_norm_([*heads.parameters(), *body.parameters()], 1.0)
        optimizer.step()
