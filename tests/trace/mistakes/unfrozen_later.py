# cause: other-parameters
# Gradual unfreezing, as asked on the forums: the optimizer was built while the body was frozen.
# says: add_param_group
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12)), nn.Linear(12, 3)
model = nn.Sequential(body, head)
x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
for p in body.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()))  # here
for epoch in range(20):
    if epoch == 8:
        for p in body.parameters():
            p.requires_grad = True
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
