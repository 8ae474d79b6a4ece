# cause: in-place
# step

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

weight = torch.randn(8, 1, requires_grad=True)
for step in range(8):
    out = torch.exp(x @ weight)
    out[:, 0] = 0  # here
    nn.functional.mse_loss(out, y).backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
        weight.grad = None
