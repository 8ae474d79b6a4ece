# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "updates by hand"
# source = "https://docs.pytorch.org/tutorials/beginner/nn_tutorial.html"
# optimizer = false
# ///
"""Logistic regression in plain tensors: the weights are updated by hand under no_grad."""

import math

import torch

torch.manual_seed(0)
x_train = torch.rand(512, 64)
y_train = (x_train @ torch.randn(64, 10)).argmax(1)

weights = torch.randn(64, 10) / math.sqrt(64)
weights.requires_grad_()
bias = torch.zeros(10, requires_grad=True)


def log_softmax(x):
    return x - x.exp().sum(-1).log().unsqueeze(-1)


def model(xb):
    return log_softmax(xb @ weights + bias)


def nll(input, target):
    return -input[range(target.shape[0]), target].mean()


bs, lr, n = 64, 0.5, len(x_train)
for epoch in range(3):
    for i in range((n - 1) // bs + 1):
        xb = x_train[i * bs : (i + 1) * bs]
        yb = y_train[i * bs : (i + 1) * bs]
        pred = model(xb)
        loss = nll(pred, yb)
        loss.backward()
        with torch.no_grad():
            weights -= weights.grad * lr
            bias -= bias.grad * lr
            weights.grad.zero_()
            bias.grad.zero_()
    print(f"epoch {epoch}: loss {nll(model(x_train), y_train).item():.4f}")
