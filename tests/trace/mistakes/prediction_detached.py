# cause: detached
# says: The loss trains only
# says: should learn instead

import copy

import torch
from torch import nn

torch.manual_seed(0)
values = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
older = copy.deepcopy(values)
optimizer = torch.optim.SGD(values.parameters(), lr=0.1)
for step in range(8):
    state, after, reward = torch.randn(32, 4), torch.randn(32, 4), torch.rand(32)
    chosen = values(state)[:, 0].detach()  # here
    wanted = reward + 0.9 * older(after).amax(1)
    loss = nn.functional.mse_loss(chosen, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        older.load_state_dict(values.state_dict())
