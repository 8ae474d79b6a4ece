# healthy
# says: the output of a relu is 0 or more, but 50% of the targets of mse_loss at
# says: targets_below_a_relu.py:13 are not
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1), nn.ReLU())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(16, 4)
y = torch.linspace(-1, 1, 16).unsqueeze(1)
for _ in range(8):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
