# /// script
# dependencies = ["lightly", "torchvision"]
# [tool.corpus]
# environment = "vision"
# field = "self-supervised learning"
# source = "https://docs.lightly.ai/self-supervised-learning/examples/simsiam.html"
# optimizer = true
# kept_out = true
# ///
"""SimSiam with lightly: two views of an image predict each other."""

import torch
import torchvision
from lightly.loss import NegativeCosineSimilarity
from lightly.models.modules import SimSiamPredictionHead, SimSiamProjectionHead
from torch import nn


class SimSiam(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.projection_head = SimSiamProjectionHead(512, 64, 32)
        self.prediction_head = SimSiamPredictionHead(32, 16, 32)

    def forward(self, x):
        f = self.backbone(x).flatten(start_dim=1)
        z = self.projection_head(f)
        p = self.prediction_head(z)
        z = z.detach()
        return z, p


torch.manual_seed(0)
resnet = torchvision.models.resnet18()
backbone = nn.Sequential(*list(resnet.children())[:-1])
model = SimSiam(backbone)
criterion = NegativeCosineSimilarity()
optimizer = torch.optim.SGD(model.parameters(), lr=0.06)

images = torch.rand(18, 3, 24, 24)
print("Starting Training")
for epoch in range(2):
    total_loss = 0
    for batch in images.split(6):
        x0 = batch + 0.1 * torch.randn_like(batch)
        x1 = batch.flip(3) + 0.1 * torch.randn_like(batch)
        z0, p0 = model(x0)
        z1, p1 = model(x1)
        loss = 0.5 * (criterion(z0, p1) + criterion(z1, p0))
        total_loss += loss.detach()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"epoch: {epoch:>02}, loss: {total_loss / 3:.5f}")
