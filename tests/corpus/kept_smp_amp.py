# /// script
# dependencies = ["segmentation-models-pytorch"]
# [tool.corpus]
# environment = "vision"
# field = "semantic segmentation, mixed precision"
# source = "https://pytorch.org/docs/stable/notes/amp_examples.html"
# optimizer = true
# kept_out = true
# ///
"""A U-Net with a MobileNet encoder, weighted classes, autocast and a GradScaler."""

import segmentation_models_pytorch as smp
import torch
from torch import nn
from torch.amp import GradScaler, autocast

torch.manual_seed(0)
CLASSES = ["background", "road", "car", "sign", "void"]
imgs = torch.rand(16, 3, 32, 32)
masks = torch.bucketize(imgs.mean(1), torch.tensor([0.4, 0.55, 0.7]))
masks[0, :2, :2] = 4

model = smp.Unet("mobilenet_v2", encoder_weights=None, classes=len(CLASSES),
                 decoder_channels=(32, 16, 16, 8, 8))
counts = torch.bincount(masks.flatten(), minlength=len(CLASSES)).float()
weights = counts.sum() / (len(CLASSES) * counts)
criterion = nn.CrossEntropyLoss(weight=weights, label_smoothing=0.05)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = GradScaler("cpu", init_scale=1024.0)

for epoch in range(2):
    model.train()
    for xb, yb in zip(imgs.split(4), masks.split(4)):
        optimizer.zero_grad()
        with autocast("cpu", dtype=torch.bfloat16):
            logits = model(xb)
        loss = criterion(logits.float(), yb)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
    print(f"epoch {epoch}: loss {loss.item():.4f}, scale {scaler.get_scale()}")
