# cause: zero
# says: before topk and not after it

import torch
from torch import nn

torch.manual_seed(0)

gate, experts = nn.Linear(6, 4), nn.ModuleList(nn.Linear(6, 6) for _ in range(4))
head = nn.Linear(6, 1)
model = nn.ModuleList([gate, experts, head])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(64, 6), torch.randn(64, 1)
for _ in range(6):
    score, chosen = gate(x).topk(1)
    weight = score.softmax(dim=-1)  # here
    mixed = torch.stack([expert(x) for expert in experts], 1)
    mixed = weight * mixed[torch.arange(64), chosen[:, 0]]
    loss = nn.functional.mse_loss(head(mixed), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
