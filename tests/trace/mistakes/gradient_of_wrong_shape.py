# cause: exception
# says: Return the transpose of gradient 1

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 4)


class Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return x @ matrix

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad @ matrix.T, grad.T @ x  # here


matrix = nn.Parameter(torch.randn(8, 4) / 8)
optimizer = torch.optim.SGD([matrix], lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(Project.apply(x, matrix), y).backward()
    optimizer.step()
