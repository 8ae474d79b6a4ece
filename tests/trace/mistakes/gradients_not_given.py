# cause: not-trained
# says: p.grad = gradient

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(48, 4)
y = x.square().sum(1, keepdim=True)
for _ in range(8):
    loss = nn.functional.mse_loss(model(x), y)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    total = sum(gradient.norm() ** 2 for gradient in gradients) ** 0.5
    gradients = [gradient / total for gradient in gradients]
    optimizer.step()  # here
