# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "updates by hand"
# source = "https://d2l.ai/chapter_linear-regression/linear-regression-scratch.html"
# optimizer = false
# ///
"""Linear regression from scratch, with an own SGD class that is no torch optimizer."""

import torch
from torch import nn

torch.manual_seed(1)


class LinearRegressionScratch(nn.Module):
    def __init__(self, num_inputs, sigma=0.01):
        super().__init__()
        self.w = nn.Parameter(torch.normal(0, sigma, (num_inputs, 1)))
        self.b = nn.Parameter(torch.zeros(1))

    def forward(self, X):
        return torch.matmul(X, self.w) + self.b


class SGD:
    """Minibatch stochastic gradient descent."""

    def __init__(self, params, lr):
        self.params, self.lr = list(params), lr

    def step(self):
        for param in self.params:
            param.data.add_(param.grad, alpha=-self.lr)

    def zero_grad(self):
        for param in self.params:
            if param.grad is not None:
                param.grad.zero_()


X = torch.randn(256, 2)
y = X @ torch.tensor([[2.0], [-3.4]]) + 4.2 + torch.randn(256, 1) * 0.01
model = LinearRegressionScratch(2)
optim = SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for Xb, yb in zip(X.split(32), y.split(32)):
        loss = ((model(Xb) - yb) ** 2 / 2).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
    print(f"epoch {epoch}: loss {loss.item():.5f}")
print(f"w {model.w.detach().flatten().tolist()}, b {model.b.item():.3f}")
