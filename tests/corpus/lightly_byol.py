# /// script
# dependencies = ["lightly", "torchvision"]
# [tool.corpus]
# environment = "vision"
# field = "Self-supervised learning"
# source = "https://docs.lightly.ai/self-supervised-learning/examples/byol.html"
# optimizer = true
# ///
"""BYOL: an online network predicts what its slowly following copy sees; the fc layer is unused."""

import copy

import torch
import torchvision
from lightly.loss import NegativeCosineSimilarity
from lightly.models.modules import BYOLPredictionHead, BYOLProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum
from lightly.utils.scheduler import cosine_schedule
from torch import nn

torch.manual_seed(0)
images = torch.randn(32, 3, 32, 32)


class BYOL(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.projection_head = BYOLProjectionHead(512, 64, 32)
        self.prediction_head = BYOLPredictionHead(32, 64, 32)

        self.backbone_momentum = copy.deepcopy(self.backbone)
        self.projection_head_momentum = copy.deepcopy(self.projection_head)

        deactivate_requires_grad(self.backbone_momentum)
        deactivate_requires_grad(self.projection_head_momentum)

    def features(self, net, x):
        x = net.maxpool(net.relu(net.bn1(net.conv1(x))))
        return net.avgpool(net.layer4(net.layer3(net.layer2(net.layer1(x))))).flatten(start_dim=1)

    def forward(self, x):
        y = self.features(self.backbone, x)
        z = self.projection_head(y)
        return self.prediction_head(z)

    def forward_momentum(self, x):
        y = self.features(self.backbone_momentum, x)
        z = self.projection_head_momentum(y)
        return z.detach()


model = BYOL(torchvision.models.resnet18())
criterion = NegativeCosineSimilarity()
optimizer = torch.optim.SGD(model.parameters(), lr=0.06)

epochs = 3
for epoch in range(epochs):
    momentum_val = cosine_schedule(epoch, epochs, 0.996, 1)
    for batch in images.split(16):
        x0 = batch + 0.1 * torch.randn_like(batch)
        x1 = batch.flip(-1) + 0.1 * torch.randn_like(batch)
        update_momentum(model.backbone, model.backbone_momentum, m=momentum_val)
        update_momentum(model.projection_head, model.projection_head_momentum, m=momentum_val)
        p0 = model(x0)
        z0 = model.forward_momentum(x0)
        p1 = model(x1)
        z1 = model.forward_momentum(x1)
        loss = 0.5 * (criterion(p0, z1) + criterion(p1, z0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"epoch: {epoch:>02}, loss: {loss.item():.5f}")
