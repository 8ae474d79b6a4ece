# healthy
# says: the model was trained in evaluation mode: eval() at healthy_evaluation_not_undone.py:21

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y = torch.randn(32, 6), torch.randn(32, 1)
model.train()
for epoch in range(3):
    for step in range(8):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 7:
            print(epoch, loss.item())
    with torch.no_grad():
        model.eval()
        print(nn.functional.mse_loss(model(x), y).item())
