# /// script
# dependencies = ["lightly", "torchvision"]
# [tool.corpus]
# environment = "vision"
# field = "Self-supervised learning"
# source = "https://docs.lightly.ai/self-supervised-learning/examples/simsiam.html"
# optimizer = true
# ///
"""SimSiam: two views, one encoder, a predictor, and a stop-gradient on the other side."""

import torch
from lightly.loss import NegativeCosineSimilarity
from lightly.models.modules import SimSiamPredictionHead, SimSiamProjectionHead
from torch import nn

torch.manual_seed(0)
images = torch.randn(64, 3, 16, 16)


class SimSiam(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.projection_head = SimSiamProjectionHead(32, 64, 32)
        self.prediction_head = SimSiamPredictionHead(32, 16, 32)

    def forward(self, x):
        f = self.backbone(x).flatten(start_dim=1)
        z = self.projection_head(f)
        p = self.prediction_head(z)
        z = z.detach()
        return z, p


backbone = nn.Sequential(
    nn.Conv2d(3, 16, 3, stride=2, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
)
model = SimSiam(backbone)
criterion = NegativeCosineSimilarity()
optimizer = torch.optim.SGD(model.parameters(), lr=0.06)

for epoch in range(4):
    total_loss = 0.0
    for batch in images[torch.randperm(64)].split(16):
        x0 = batch + 0.2 * torch.randn_like(batch)
        x1 = batch.flip(-1) + 0.2 * torch.randn_like(batch)
        z0, p0 = model(x0)
        z1, p1 = model(x1)
        loss = 0.5 * (criterion(z0, p1) + criterion(z1, p0))
        total_loss += loss.detach()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"epoch: {epoch:>02}, loss: {total_loss / 4:.5f}")
