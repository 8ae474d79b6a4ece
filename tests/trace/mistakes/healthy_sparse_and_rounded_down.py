# healthy

import torch
from torch import nn

torch.manual_seed(0)
words, y = torch.randint(0, 50, (32, 6)), torch.randn(32, 1)
table, last = nn.EmbeddingBag(50, 16, mode="mean", sparse=True), nn.Linear(16, 1)
optimizers = [
    torch.optim.SparseAdam(list(table.parameters()), lr=0.01),
    torch.optim.Adam(last.parameters(), lr=0.01),
]
for step in range(8):
    loss = nn.functional.mse_loss(last(table(words)), y)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    print("whole units of loss", loss // 1)
