# healthy
# says: the StepLR that was built at two_schedulers_of_one_optimizer.py:12 changes an optimizer that
# says: another one changes as often
import torch
from torch import nn

torch.manual_seed(0)
first, second = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer_1 = torch.optim.Adam(first.parameters(), lr=1e-2)
optimizer_2 = torch.optim.Adam(second.parameters(), lr=1e-2)
scheduler_1 = torch.optim.lr_scheduler.StepLR(optimizer_1, 4, 0.5)
scheduler_2 = torch.optim.lr_scheduler.StepLR(optimizer_1, 4, 0.5)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(10):
    for model, optimizer in ((first, optimizer_1), (second, optimizer_2)):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler_1.step()
    scheduler_2.step()
