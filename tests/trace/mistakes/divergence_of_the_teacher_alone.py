# healthy
# says: nothing that kl_div gets at divergence_of_the_teacher_alone.py:16 has a graph
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
        of_teacher = teacher(x)
    given = F.log_softmax(of_teacher / 2, dim=1)
    part = F.kl_div(given, F.softmax(of_teacher / 2, dim=1), reduction="batchmean")
    loss = F.cross_entropy(logits, y) + 4 * part
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
