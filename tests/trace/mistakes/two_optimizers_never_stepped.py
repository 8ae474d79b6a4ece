# cause: never-stepped
# says: 2 optimizers never stepped: Adam, built at two_optimizers_never_stepped.py:9
import torch
from torch import nn

torch.manual_seed(0)
body, first, second = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
of_body = torch.optim.SGD(body.parameters(), lr=1e-2)
of_first = torch.optim.Adam(first.parameters(), lr=1e-2)
of_second = torch.optim.Adam(second.parameters(), lr=1e-2)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(8):
    for optimizer in (of_body, of_first, of_second):
        optimizer.zero_grad()
    hidden = body(x).relu()
    loss = nn.functional.mse_loss(first(hidden) + second(hidden), y)
    loss.backward()  # here
    of_body.step()
