# healthy
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model, offset = nn.Linear(4, 1), torch.tensor(0.5)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(16, 4), torch.randn(16, 1)


def error(prediction):
    return F.mse_loss(prediction, y)


for _ in range(8):
    before = error(torch.zeros(16, 1))  # of a baseline, to compare with
    loss = error(model(x)) + offset
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item() / before.item():.0e}")
