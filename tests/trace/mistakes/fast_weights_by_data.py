# cause: other-parameters detached
# says: fast weights
import torch
import torch.nn.functional as F

torch.manual_seed(0)
w1, b1 = torch.nn.Parameter(torch.randn(16, 1)), torch.nn.Parameter(torch.zeros(16))
w2, b2 = torch.nn.Parameter(torch.randn(1, 16) / 4), torch.nn.Parameter(torch.zeros(1))
theta = [w1, b1, w2, b2]
optimizer = torch.optim.Adam(theta, lr=1e-3)


def net(x, p):
    return F.linear(torch.tanh(F.linear(x, p[0], p[1])), p[2], p[3])


def adapt(weights, x, y):
    for _ in range(2):
        gradients = torch.autograd.grad(F.mse_loss(net(x, weights), y), weights, create_graph=True)
        for weight, gradient in zip(weights, gradients):
            weight.data -= 0.05 * gradient  # here
    return weights


for step in range(8):
    optimizer.zero_grad()
    loss = 0.0
    for _ in range(4):
        x = torch.rand(20, 1) * 4
        y = torch.sin(x + torch.rand(1))
        fast = adapt([p.detach().clone().requires_grad_() for p in theta], x[:10], y[:10])  # here
        loss = loss + F.mse_loss(net(x[10:], fast), y[10:]) / 4
    loss.backward()
    optimizer.step()
