"""A small perceptron: a step takes less than a millisecond.

It writes the processor time of each step to the file that it is given.
"""

import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y = torch.randn(64, 16), torch.randn(64, 1)
times = []
for _ in range(1000):
    began = time.process_time()
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    times.append(time.process_time() - began)
with open(sys.argv[1], "w") as file:
    file.write("\n".join(map(str, times)))
