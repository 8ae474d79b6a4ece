# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Meta-learning"
# source = "https://interactive-maml.github.io/maml.html"
# optimizer = false
# ///
"""MAML on sine waves: autograd.grad in the inner and in the outer loop, updates by hand."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))


def sample_task():
    amplitude = torch.rand(1) * 4.9 + 0.1
    phase = torch.rand(1) * math.pi

    def sample(k):
        x = torch.rand(k, 1) * 10 - 5
        return x, amplitude * torch.sin(x + phase)

    return sample


inner_lr, outer_lr = 0.02, 0.005
weights = dict(net.named_parameters())

for it in range(60):
    outer_loss = 0.0
    for _ in range(4):
        task = sample_task()
        x_support, y_support = task(10)
        x_query, y_query = task(10)
        # inner loop: one step of gradient descent, kept in the graph
        loss = F.mse_loss(functional_call(net, weights, (x_support,)), y_support)
        grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        fast = {name: w - inner_lr * g for (name, w), g in zip(weights.items(), grads)}
        # the loss after adaptation
        outer_loss = outer_loss + F.mse_loss(functional_call(net, fast, (x_query,)), y_query) / 4
    meta_grads = torch.autograd.grad(outer_loss, list(weights.values()))
    with torch.no_grad():
        for w, g in zip(weights.values(), meta_grads):
            w.sub_(outer_lr * g)
    if it % 10 == 0:
        print(it, outer_loss.item())
