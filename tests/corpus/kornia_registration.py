# /// script
# dependencies = ["kornia"]
# [tool.corpus]
# environment = "vision"
# field = "Vision"
# source = "https://kornia.readthedocs.io/en/latest/applications/image_registration.html"
# optimizer = true
# ///
"""Image registration with kornia: the homography is the only parameter, from coarse to fine."""

import torch
import torch.nn.functional as F
from kornia.geometry import ImageRegistrator
from kornia.geometry.transform import warp_affine

torch.manual_seed(0)
grid = torch.linspace(-1, 1, 64)
blob = torch.exp(-8 * ((grid[:, None] - 0.1) ** 2 + (grid[None, :] + 0.2) ** 2))
stripe = torch.exp(-20 * (grid[None, :] - grid[:, None] - 0.4) ** 2)
img_src = (blob + stripe)[None, None]

angle = torch.tensor(0.15)
rotation = torch.tensor([[angle.cos(), -angle.sin(), 6.0], [angle.sin(), angle.cos(), -4.0]])
img_dst = warp_affine(img_src, rotation[None], (64, 64))

registrator = ImageRegistrator(
    "similarity", loss_fn=F.l1_loss, lr=8e-4, pyramid_levels=3, num_iterations=30
)
homo = registrator.register(img_src, img_dst)
before = F.l1_loss(img_src, img_dst).item()
after = F.l1_loss(registrator.warp_src_into_dst(img_src), img_dst).item()
print(f"difference before {before:.4f}, after {after:.4f}")
