# healthy: a frozen copy follows the model that is trained, as an average

import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Linear(8, 3)
teacher = copy.deepcopy(student)
teacher.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
data, labels = torch.randn(32, 8), torch.randint(3, (32,))

for step in range(8):
    optimizer.zero_grad()
    scores = student(data)
    loss = nn.functional.cross_entropy(scores, labels)
    (loss + nn.functional.mse_loss(scores, teacher(data))).backward()
    optimizer.step()
    with torch.no_grad():
        for average, parameter in zip(teacher.parameters(), student.parameters()):
            average.lerp_(parameter, 0.01)
