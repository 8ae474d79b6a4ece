# cause: other-parameters

import torch

torch.manual_seed(0)
target = torch.randn(3, 5)
image = torch.zeros(3, 5, requires_grad=True)
optimizer = torch.optim.Adam([image.clone().detach().requires_grad_()])  # here
for step in range(8):
    optimizer.zero_grad()
    (image - target).square().mean().backward()
    optimizer.step()
