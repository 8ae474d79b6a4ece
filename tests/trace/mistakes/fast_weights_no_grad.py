# cause: grad-mode-off detached
# says: fast weights
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def adapt(weights, x, y):
    loss = nn.functional.mse_loss(functional_call(model, weights, (x,)), y)
    gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
    with torch.no_grad():  # here
        fast = {
            name: weight - 0.1 * gradient  # here
            for (name, weight), gradient in zip(weights.items(), gradients)
        }
    return {name: weight.requires_grad_() for name, weight in fast.items()}  # here


for step in range(8):
    x = torch.randn(4, 20, 1)
    y = torch.sin(x + torch.rand(4, 1, 1))
    optimizer.zero_grad()
    for inputs, targets in zip(x, y):
        fast = adapt(dict(model.named_parameters()), inputs[:10], targets[:10])
        outputs = functional_call(model, fast, (inputs[10:],))
        nn.functional.mse_loss(outputs, targets[10:]).backward()  # here
    optimizer.step()
