# cause: graph-freed
# says: both use `w`, which is computed once and not for each pass
# says: call requires_grad_() on it

import torch

torch.manual_seed(0)
x, y = torch.randn(32, 5), torch.randn(32)
w = torch.randn(5, requires_grad=True) * 0.01  # here
b = torch.zeros(1, requires_grad=True)
for _ in range(6):
    loss = (torch.sigmoid(x @ w + b) - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w, b):
            if p.grad is not None:
                p -= 0.1 * p.grad
                p.grad.zero_()
