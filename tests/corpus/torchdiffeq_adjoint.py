# /// script
# dependencies = ["torchdiffeq"]
# [tool.corpus]
# environment = "science"
# field = "Differential equations"
# source = "https://github.com/rtqichen/torchdiffeq/blob/master/examples/ode_demo.py"
# optimizer = true
# ///
"""A neural ODE learns a spiral; the gradient comes from the adjoint equation."""

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torchdiffeq import odeint, odeint_adjoint

np.random.seed(0)
torch.manual_seed(0)
data_size, batch_time, batch_size = 200, 10, 16

true_y0 = torch.tensor([[2.0, 0.0]])
t = torch.linspace(0.0, 5.0, data_size)
true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])


class Lambda(nn.Module):
    def forward(self, t, y):
        return torch.mm(y**3, true_A)


with torch.no_grad():
    true_y = odeint(Lambda(), true_y0, t, method="dopri5")


def get_batch():
    s = torch.from_numpy(
        np.random.choice(np.arange(data_size - batch_time), batch_size, replace=False)
    )
    batch_y0 = true_y[s]
    batch_t = t[:batch_time]
    batch_y = torch.stack([true_y[s + i] for i in range(batch_time)], dim=0)
    return batch_y0, batch_t, batch_y


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

    def forward(self, t, y):
        return self.net(y**3)


func = ODEFunc()
optimizer = optim.RMSprop(func.parameters(), lr=1e-3)

for itr in range(1, 31):
    optimizer.zero_grad()
    batch_y0, batch_t, batch_y = get_batch()
    pred_y = odeint_adjoint(func, batch_y0, batch_t)
    loss = torch.mean(torch.abs(pred_y - batch_y))
    loss.backward()
    optimizer.step()
    if itr % 10 == 0:
        print(f"Iter {itr:04d} | Total Loss {loss.item():.6f}")
