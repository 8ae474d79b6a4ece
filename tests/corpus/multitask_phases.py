# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "multi-task learning"
# source = "https://gist.github.com/alwc/b347d0a120a4a259160f2329673e32c4"
# optimizer = true
# ///
"""A shared trunk with two heads: one head rests in the first phase, both losses count later."""

import torch
from torch import nn

torch.manual_seed(0)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.regression = nn.Linear(32, 1)
        self.classification = nn.Linear(32, 3)

    def forward(self, x):
        shared = self.trunk(x)
        return self.regression(shared), self.classification(shared)


model = MultiTask()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
x = torch.randn(200, 10)
target = x.sum(1, keepdim=True)
label = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
for epoch in range(24):
    value, logits = model(x)
    losses = [nn.functional.mse_loss(value, target)]
    if epoch >= 12:
        losses.append(nn.functional.cross_entropy(logits, label))
    loss = torch.stack(losses).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 6 == 5:
        print(f"epoch {epoch}: {[round(part.item(), 3) for part in losses]}")
