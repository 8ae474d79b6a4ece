# /// script
# dependencies = ["monai"]
# [tool.corpus]
# environment = "vision"
# field = "medical segmentation"
# source = "https://github.com/Project-MONAI/tutorials"
# optimizer = true
# kept_out = true
# ///
"""A UNet of MONAI finds discs in noisy images with the Dice loss."""

import monai
import torch
from monai.data import create_test_image_2d
from monai.losses import DiceLoss
from monai.metrics import DiceMetric
from monai.transforms import Activations, AsDiscrete, Compose
from torch.utils.data import DataLoader, TensorDataset

monai.utils.set_determinism(seed=0)
pairs = [create_test_image_2d(32, 32, num_objs=3, rad_max=8, noise_max=0.3) for _ in range(24)]
images = torch.stack([torch.as_tensor(im)[None] for im, _ in pairs]).float()
segs = torch.stack([torch.as_tensor(seg)[None] > 0 for _, seg in pairs]).float()
train_loader = DataLoader(TensorDataset(images, segs), batch_size=8, shuffle=True)
dice_metric = DiceMetric(include_background=True, reduction="mean", get_not_nans=False)
post_trans = Compose([Activations(sigmoid=True), AsDiscrete(threshold=0.5)])

model = monai.networks.nets.UNet(
    spatial_dims=2,
    in_channels=1,
    out_channels=1,
    channels=(8, 16, 32),
    strides=(2, 2),
    num_res_units=1,
)
loss_function = DiceLoss(sigmoid=True)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)

for epoch in range(4):
    model.train()
    epoch_loss = 0
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = loss_function(outputs, labels)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
        dice_metric(y_pred=post_trans(outputs), y=labels)
    print(f"epoch {epoch + 1} average loss: {epoch_loss / len(train_loader):.4f} "
          f"dice: {dice_metric.aggregate().item():.4f}")
    dice_metric.reset()
