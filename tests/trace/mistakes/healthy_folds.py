# healthy
# Folds whose gradients come from autograd.grad: each begins anew, and every step counts.
# says: trains, gradient flowing, 18 steps
# says: not judged: what a later SGD (built at healthy_folds.py:15, fit) trains
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(30, 8), torch.randn(30, 1)


def fit(rows):
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for _ in range(6):
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
            parameter.grad = gradient
        optimizer.step()


for fold in torch.randperm(30).chunk(3):
    fit(fold)
