# cause: graph-freed
# says: carried from one iteration to the next
# says: detach()
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randn(64, 1)
body, head = nn.Linear(8, 16), nn.Linear(16, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
center = torch.zeros(16)
for step in range(8):
    features = torch.relu(body(x))  # here
    center = 0.9 * center + 0.1 * features.mean(0)  # here
    loss = nn.functional.mse_loss(head(features - center), y)
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
