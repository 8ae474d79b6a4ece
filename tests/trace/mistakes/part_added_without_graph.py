# cause: detached

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    out = model(x)
    loss = nn.functional.mse_loss(out, y)
    smooth = torch.from_numpy(out.detach().numpy()).diff(dim=0).square().mean()  # here
    loss += 0.1 * smooth
    loss.backward()
    optimizer.step()
    print(step, loss.item())
