# /// script
# dependencies = ["open-clip-torch"]
# [tool.corpus]
# environment = "vision"
# field = "Contrastive learning"
# source = "https://github.com/mlfoundations/open_clip/blob/main/src/open_clip_train/train.py"
# optimizer = true
# ///
"""A tiny CLIP of open_clip: images and texts meet in one space, and the temperature is learned."""

import math

import torch
from open_clip import CLIP, ClipLoss

torch.manual_seed(0)
model = CLIP(
    embed_dim=32,
    vision_cfg=dict(layers=2, width=64, head_width=32, patch_size=16, image_size=32),
    text_cfg=dict(context_length=8, vocab_size=50, width=64, heads=2, layers=2),
)
images = torch.randn(32, 3, 32, 32)
texts = torch.randint(1, 49, (32, 8))
texts[:, -1] = 49  # the end token

loss_fn = ClipLoss()
exclude = [p for n, p in model.named_parameters() if p.ndim < 2 or "bn" in n or "ln" in n]
include = [p for n, p in model.named_parameters() if not (p.ndim < 2 or "bn" in n or "ln" in n)]
optimizer = torch.optim.AdamW(
    [
        {"params": exclude, "weight_decay": 0.0},
        {"params": include, "weight_decay": 0.2},
    ],
    lr=5e-4,
)

model.train()
for step in range(12):
    rows = torch.randperm(32)[:16]
    optimizer.zero_grad()
    image_features, text_features, logit_scale = model(images[rows], texts[rows])
    total_loss = loss_fn(image_features, text_features, logit_scale)
    total_loss.backward()
    optimizer.step()
    # Note: we clamp to 4.6052 = ln(100), as in the original paper.
    with torch.no_grad():
        model.logit_scale.clamp_(0, math.log(100))
    if step % 4 == 0:
        print(f"{step}: loss {total_loss.item():.3f}, scale {logit_scale.item():.2f}")
