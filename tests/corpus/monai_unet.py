# /// script
# dependencies = ["monai"]
# [tool.corpus]
# environment = "vision"
# field = "Medical imaging"
# source = "https://github.com/Project-MONAI/tutorials/blob/main/2d_segmentation/torch/unet_training_array.py"
# optimizer = true
# ///
"""A U-Net of MONAI segments synthetic images, with its transforms, Dice loss and Dice metric."""

import torch
from monai.data import ArrayDataset, DataLoader, create_test_image_2d, decollate_batch
from monai.losses import DiceLoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import Activations, AsDiscrete, Compose, EnsureChannelFirst, RandRotate90
from monai.transforms import ScaleIntensity
from monai.utils import set_determinism

set_determinism(seed=0)
pairs = [create_test_image_2d(64, 64, num_seg_classes=1, num_objs=6) for _ in range(16)]
image_trans = Compose(
    [EnsureChannelFirst(channel_dim="no_channel"), ScaleIntensity(), RandRotate90(prob=0.5)]
)
seg_trans = Compose([EnsureChannelFirst(channel_dim="no_channel"), RandRotate90(prob=0.5)])
ds = ArrayDataset([p[0] for p in pairs], image_trans, [p[1] for p in pairs], seg_trans)
loader = DataLoader(ds, batch_size=4, shuffle=True, num_workers=0)

model = UNet(
    spatial_dims=2,
    in_channels=1,
    out_channels=1,
    channels=(8, 16, 32),
    strides=(2, 2),
    num_res_units=1,
)
loss_function = DiceLoss(sigmoid=True)
optimizer = torch.optim.Adam(model.parameters(), 5e-3)
dice_metric = DiceMetric(include_background=True, reduction="mean")
post_trans = Compose([Activations(sigmoid=True), AsDiscrete(threshold=0.5)])

for epoch in range(3):
    model.train()
    for inputs, labels in loader:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = loss_function(outputs, labels)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for inputs, labels in loader:
            outputs = [post_trans(i) for i in decollate_batch(model(inputs))]
            dice_metric(y_pred=outputs, y=decollate_batch(labels))
    print(f"epoch {epoch + 1}: loss {loss.item():.4f}, dice {dice_metric.aggregate().item():.4f}")
    dice_metric.reset()
