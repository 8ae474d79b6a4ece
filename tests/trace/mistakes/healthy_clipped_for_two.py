# healthy
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
of_body = torch.optim.Adam(body.parameters(), lr=1e-2)
of_head = torch.optim.Adam(head.parameters(), lr=1e-2)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(8):
    loss = nn.functional.mse_loss(head(body(x)), y)
    body.zero_grad()
    head.zero_grad()
    loss.backward()
    of_body.step()
    nn.utils.clip_grad_norm_(head.parameters(), 1.0)
    of_head.step()
