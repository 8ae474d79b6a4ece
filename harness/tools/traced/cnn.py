"""A convolutional network on images.

It writes the processor time of each step to the file that it is given.
"""

import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(32 * 8 * 8, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.randn(256, 3, 32, 32), torch.randint(10, (256,))
times = []
for _ in range(200):
    began = time.process_time()
    batch = torch.randint(256, (16,))
    loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    times.append(time.process_time() - began)
with open(sys.argv[1], "w") as file:
    file.write("\n".join(map(str, times)))
