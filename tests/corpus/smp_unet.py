# /// script
# dependencies = ["segmentation-models-pytorch"]
# [tool.corpus]
# environment = "vision"
# field = "Segmentation"
# source = "https://smp.readthedocs.io/en/latest/quickstart.html"
# optimizer = true
# ///
"""A U-Net of segmentation-models-pytorch learns discs with the Dice loss."""

import segmentation_models_pytorch as smp
import torch

torch.manual_seed(0)
grid = torch.linspace(-1, 1, 64)


def discs(n):
    center = torch.rand(n, 2, 1, 1) - 0.5
    distance = (grid[:, None] - center[:, 0]) ** 2 + (grid[None, :] - center[:, 1]) ** 2
    mask = (distance < 0.15).float().unsqueeze(1)
    return mask.repeat(1, 3, 1, 1) + 0.5 * torch.randn(n, 3, 64, 64), mask


model = smp.Unet(
    encoder_name="mobilenet_v2",
    encoder_weights=None,
    decoder_channels=(32, 16, 16, 8, 8),
    in_channels=3,
    classes=1,
)
loss_fn = smp.losses.DiceLoss(smp.losses.BINARY_MODE, from_logits=True)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

model.train()
for step in range(12):
    image, mask = discs(4)
    optimizer.zero_grad()
    logits_mask = model(image)
    loss = loss_fn(logits_mask, mask)
    loss.backward()
    optimizer.step()
    if step % 3 == 0:
        pred_mask = (logits_mask.sigmoid() > 0.5).long()
        tp, fp, fn, tn = smp.metrics.get_stats(pred_mask, mask.long(), mode="binary")
        iou = smp.metrics.iou_score(tp, fp, fn, tn, reduction="micro")
        print(f"{step}: dice loss {loss.item():.3f}, IoU {iou.item():.3f}")
