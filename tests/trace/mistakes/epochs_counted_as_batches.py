# healthy
# says: in the last 25 of 40 steps the learning rate was below 1/1000 of its highest, by the
# says: scheduler that was set at epochs_counted_as_batches.py:10
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(4):
    for _ in range(10):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
