# healthy
# says: kl_div at kl_of_probabilities.py:16 gets the output of a softmax, but wants logarithms
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
student, teacher = nn.Linear(4, 3), nn.Linear(4, 3)
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
for _ in range(8):
    logits = student(x)
    with torch.no_grad():
        wanted = F.softmax(teacher(x), dim=1)
    loss = F.cross_entropy(logits, y)
    loss = loss + F.kl_div(F.softmax(logits, dim=1), wanted, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
