# /// script
# dependencies = ["torchvision"]
# [tool.corpus]
# environment = "vision"
# field = "Vision"
# source = "https://pytorch.org/tutorials/beginner/transfer_learning_tutorial.html"
# optimizer = true
# ///
"""Transfer learning: a MobileNet as a frozen feature extractor with a new classifier on top."""

import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset
from torchvision import models

torch.manual_seed(0)
images = torch.randn(64, 3, 64, 64)
labels = (images[:, 0].mean((1, 2)) > 0).long()
images[labels == 1, 0] += 0.5
dataloader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)

model_conv = models.mobilenet_v3_small(weights=None)
for param in model_conv.parameters():
    param.requires_grad = False

# Parameters of newly constructed modules have requires_grad=True by default
num_ftrs = model_conv.classifier[3].in_features
model_conv.classifier[3] = nn.Linear(num_ftrs, 2)

criterion = nn.CrossEntropyLoss()

# Observe that only parameters of final layer are being optimized
optimizer_conv = optim.SGD(model_conv.classifier[3].parameters(), lr=0.01, momentum=0.9)
exp_lr_scheduler = lr_scheduler.StepLR(optimizer_conv, step_size=2, gamma=0.1)

for epoch in range(3):
    model_conv.train()
    running_loss = 0.0
    for inputs, targets in dataloader:
        optimizer_conv.zero_grad()
        outputs = model_conv(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer_conv.step()
        running_loss += loss.item() * inputs.size(0)
    exp_lr_scheduler.step()
    print(f"epoch {epoch} Loss: {running_loss / len(images):.4f}")
