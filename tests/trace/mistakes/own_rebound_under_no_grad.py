# cause: grad-mode-off
# From scratch: the second step finds tensors without a graph.
# says: clear its gradient after each update
import torch


class Regression:
    def __init__(self, size):
        self.w = torch.zeros(size, requires_grad=True)
        self.b = torch.zeros(1, requires_grad=True)

    def fit(self, x, y, rate=0.1):
        self.count = torch.zeros(1)
        for _ in range(8):
            loss = (x @ self.w + self.b - y).square().mean()
            loss.backward()
            with torch.no_grad():
                self.count = self.count + 1
                self.w = self.w - rate * self.w.grad  # here
                self.b = self.b - rate * self.b.grad


torch.manual_seed(0)
Regression(4).fit(torch.randn(32, 4), torch.randn(32))
