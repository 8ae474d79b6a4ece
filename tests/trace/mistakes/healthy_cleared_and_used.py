# healthy
# Gradients that are cleared between backward passes of one line were used: by the perturbation of a
# sharpness-aware step, by an attack on the input, or for the mean of clipped ones.

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(8, 6), torch.randn(8, 1)


def backward(inputs):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), y[: len(inputs)]).backward()


def sharp(parameters):
    backward(x)
    moved = [0.05 * p.grad / (p.grad.norm() + 1e-6) for p in parameters]
    for p, e in zip(parameters, moved):
        p.data.add_(e)
    backward(x)
    for p, e in zip(parameters, moved):
        p.data.sub_(e)


def clipped(parameters):
    means = [torch.zeros_like(p) for p in parameters]
    for row in x:
        backward(row[None])
        for mean, p in zip(means, parameters):
            mean += p.grad.clamp(-1, 1) / len(x)
    for mean, p in zip(means, parameters):
        p.grad = mean


def attacked():
    noisy = x.clone().requires_grad_()
    for _ in range(3):
        model.zero_grad()
        nn.functional.mse_loss(model(noisy), y).backward()
        noisy.data += 0.01 * noisy.grad.sign()
    backward(noisy.detach())


for step in range(12):
    parameters = list(model.parameters())
    if step % 3 == 0:
        sharp(parameters)
    elif step % 3 == 1:
        clipped(parameters)
    else:
        attacked()
    optimizer.step()
