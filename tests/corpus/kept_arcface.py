# /// script
# dependencies = ["pytorch-metric-learning", "torchvision"]
# [tool.corpus]
# environment = "vision"
# field = "metric learning"
# source = "https://kevinmusgrave.github.io/pytorch-metric-learning/losses/"
# optimizer = true
# kept_out = true
# ///
"""Sub-center ArcFace with pytorch-metric-learning; the loss has weights and an optimizer too."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from pytorch_metric_learning import losses
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, 1)
        self.conv2 = nn.Conv2d(16, 32, 3, 1)
        self.fc1 = nn.Linear(800, 64)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = torch.flatten(x, 1)
        return self.fc1(x)


def train(model, loss_func, train_loader, optimizer, loss_optimizer, epoch):
    model.train()
    for batch_idx, (data, labels) in enumerate(train_loader):
        optimizer.zero_grad()
        loss_optimizer.zero_grad()
        embeddings = model(data)
        loss = loss_func(embeddings, labels)
        loss.backward()
        optimizer.step()
        loss_optimizer.step()
        if batch_idx % 4 == 0:
            print(f"Epoch {epoch} Iteration {batch_idx}: Loss = {loss.item():.4f}")


torch.manual_seed(0)
digits = torch.rand(5, 1, 14, 14)
labels = torch.arange(64) % 5
images = digits[labels] + 0.2 * torch.randn(64, 1, 14, 14)
train_loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)

model = Net()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
loss_func = losses.SubCenterArcFaceLoss(num_classes=5, embedding_size=64)
loss_optimizer = optim.Adam(loss_func.parameters(), lr=1e-3)
for epoch in range(1, 4):
    train(model, loss_func, train_loader, optimizer, loss_optimizer, epoch)
