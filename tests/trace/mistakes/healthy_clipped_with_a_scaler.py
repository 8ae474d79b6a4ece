# healthy
# newest
# The scaled gradients of one model are divided first; the other is clipped without a scaler.
import torch
from torch import nn

torch.manual_seed(0)
maker, critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
first, second = torch.optim.SGD(critic.parameters(), 0.1), torch.optim.SGD(maker.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(8):
    made = maker(torch.randn(16, 4))
    first.zero_grad()
    loss = (critic(made.detach()) ** 2).mean() + ((critic(torch.randn(16, 2)) - 1) ** 2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(first)
    nn.utils.clip_grad_norm_(critic.parameters(), 0.1)
    scaler.step(first)
    scaler.update()
    second.zero_grad()
    ((critic(made) - 1) ** 2).mean().backward()
    nn.utils.clip_grad_norm_(maker.parameters(), 0.1)
    second.step()
