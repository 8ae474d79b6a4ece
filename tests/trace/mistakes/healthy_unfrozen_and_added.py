# healthy
# What is unfrozen is added to the optimizer, or is updated by hand.
import torch
from torch import nn

torch.manual_seed(0)
body, head, scale = nn.Linear(6, 12), nn.Linear(12, 3), nn.Linear(3, 3)
x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
body.requires_grad_(False)
scale.requires_grad_(False)
optimizer = torch.optim.Adam(head.parameters())
for epoch in range(20):
    if epoch == 8:
        body.requires_grad_(True)
        scale.requires_grad_(True)
        optimizer.add_param_group({"params": body.parameters(), "lr": 1e-4})
    optimizer.zero_grad()
    nn.functional.cross_entropy(scale(head(torch.relu(body(x)))), y).backward()
    optimizer.step()
    for p in scale.parameters():
        if p.grad is not None:
            p.data -= 0.01 * p.grad
            p.grad = None
