# healthy
# says: computed under no_grad at healthy_constant_beside_metrics.py:21

import torch
from torch import nn

torch.manual_seed(0)
teacher = nn.Linear(8, 3).requires_grad_(False)
student = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)


def accuracy(logits, y):
    return (logits.detach().argmax(1) == y).float().mean()


for step in range(8):
    x = torch.randn(32, 8)
    logits = student(x)
    hits = accuracy(logits, teacher(x).argmax(1))
    with torch.no_grad():
        soft = teacher(x).softmax(1)
        entropy = -(soft * soft.log()).sum(1).mean()
    spread = x.var()
    loss = -(soft * logits.log_softmax(1)).sum(1).mean()
    loss = loss + 0.01 * spread
    print(step, logits.detach().abs().mean().item(), hits.item())
    loss = loss - entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
