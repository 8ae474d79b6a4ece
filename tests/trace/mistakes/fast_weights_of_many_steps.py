# cause: detached
# MAML with an inner loop: the first of its steps cuts what the later ones are computed from.
# says: fast weights
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(8):
    losses = []
    for task in range(3):
        x = torch.rand(20, 1) * 4
        y = torch.sin(x + torch.rand(1))
        fast = dict(model.named_parameters())
        for inner in range(5):
            loss = F.mse_loss(functional_call(model, fast, (x[:10],)), y[:10])
            gradients = torch.autograd.grad(loss, list(fast.values()))
            fast = {
                name: (weight - 0.05 * gradient).detach().requires_grad_()  # here
                for (name, weight), gradient in zip(fast.items(), gradients)
            }
        losses.append(F.mse_loss(functional_call(model, fast, (x[10:],)), y[10:]))
    optimizer.zero_grad()
    torch.stack(losses).mean().backward()
    optimizer.step()
