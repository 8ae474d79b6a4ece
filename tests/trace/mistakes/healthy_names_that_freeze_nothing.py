# healthy
# says: `param.require_grad = False` at
# says: `model[4].requires_grad = False` at
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
for param in model[0].parameters():
    param.require_grad = False
for param in model[2].parameters():
    param.requires_grad = False
model[4].requires_grad = False
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(20):
    loss = nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(3, (16,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
