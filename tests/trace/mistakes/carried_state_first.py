# cause: graph-freed
# says: carried from one iteration to the next
# says: detach()
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(10, 32, 4)
weights = [torch.randn(4, 8), torch.randn(8, 8), torch.randn(8, 1)]
parameters = [nn.Parameter(w / 4) for w in weights]
first, inner, last = parameters
start = nn.Parameter(torch.zeros(1, 8))
optimizer = torch.optim.SGD([*parameters, start], lr=0.01)
state = torch.tanh(start).expand(32, 8)
for piece in x:
    state = torch.tanh(piece @ first + state @ inner)  # here
    loss = (state @ last - piece.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
