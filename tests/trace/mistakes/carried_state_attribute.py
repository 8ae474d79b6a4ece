# cause: graph-freed
# says: carried from one iteration to the next
# says: detach()
import torch
from torch import nn


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Parameter(torch.randn(8, 8) / 4)
        self.outer = nn.Parameter(torch.randn(4, 8) / 4)
        self.state = torch.zeros(32, 8)

    def forward(self, x):
        self.state = torch.tanh(x @ self.outer + self.state @ self.inner)  # here
        return self.state.sum(1)


torch.manual_seed(0)
x = torch.randn(10, 32, 4)
model = Filter()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for piece in x:
    loss = (model(piece) - piece.sum(1)).pow(2).mean()  # here
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
