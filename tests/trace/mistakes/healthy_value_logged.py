# healthy
# after the first phase of RLHF scripts: the value head is there, and its loss is only plotted
import torch
import torch.nn.functional as F
from torch import nn


class WithValueHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 32), nn.Tanh())
        self.lm_head = nn.Linear(32, 16)
        self.v_head = nn.Linear(32, 1)

    def forward(self, x):
        hidden = self.body(x)
        return self.lm_head(hidden), self.v_head(hidden)


torch.manual_seed(0)
model = WithValueHead()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
values = []
for step in range(12):
    logits, value = model(torch.randn(16, 8))
    value_loss = F.mse_loss(value, torch.zeros_like(value))
    values.append(value_loss.item())
    loss = F.cross_entropy(logits, torch.randint(0, 16, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(values[-1])
