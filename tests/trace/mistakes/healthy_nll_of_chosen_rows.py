# healthy
# says: nll_loss at healthy_nll_of_chosen_rows.py:13 gets the output of a softmax

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4), nn.Softmax(dim=-1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y, chosen = torch.randn(32, 6), torch.randint(0, 4, (32,)), torch.rand(32) > 0.5
for _ in range(6):
    out = model(x)
    loss = nn.functional.nll_loss(out[chosen], y[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
