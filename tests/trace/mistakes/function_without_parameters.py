# cause: grad-mode-off

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


class Fixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, model, x):
        with torch.no_grad():  # here
            return model(x)

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient


model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    out = Fixed.apply(model, x)  # here
    loss = nn.functional.mse_loss(out, y)
    loss.backward()
    optimizer.step()
