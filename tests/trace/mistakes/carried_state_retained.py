# cause: in-place
# says: carried from one iteration to the next
# says: detach()
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(10, 32, 8)
model, head = nn.GRUCell(8, 16), nn.Linear(16, 8)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
state = torch.zeros(32, 16)
for now, following in zip(x, x[1:]):
    state = model(now, state)  # here
    loss = nn.functional.mse_loss(head(state), following)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)  # here
    optimizer.step()  # here
