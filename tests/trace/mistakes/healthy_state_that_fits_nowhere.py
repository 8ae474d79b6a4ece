# healthy
# says: load_state_dict(strict=False) at healthy_state_that_fits_nowhere.py:12 loaded nothing

import torch
from torch import nn

torch.manual_seed(0)

trained = nn.DataParallel(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)))
state = trained.state_dict()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
model.load_state_dict(state, strict=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(32, 6), torch.randn(32, 1)
for _ in range(6):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
