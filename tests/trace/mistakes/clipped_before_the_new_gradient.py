# healthy
# says: clipping at clipped_before_the_new_gradient.py:13 never found a new gradient
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(16, 4), torch.randn(16, 1)


def loss_of(model):
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return nn.functional.mse_loss(model(x), y)


for _ in range(8):
    loss = loss_of(model)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
