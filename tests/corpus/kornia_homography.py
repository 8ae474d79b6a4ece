# /// script
# dependencies = ["kornia"]
# [tool.corpus]
# environment = "vision"
# field = "Vision"
# source = "https://github.com/kornia/kornia/issues/17"
# optimizer = true
# ///
"""Homography regression: a 3x3 matrix learns to warp one image into the other."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from kornia.filters import gaussian_blur2d
from kornia.geometry.transform import HomographyWarper

torch.manual_seed(0)
img_src = gaussian_blur2d(torch.rand(1, 1, 48, 48), (15, 15), (4.0, 4.0)) * 4
warper = HomographyWarper(48, 48)
true_homography = torch.tensor([[[0.97, -0.06, 0.08], [0.05, 1.02, -0.06], [0.0, 0.0, 1.0]]])
img_dst = warper(img_src, true_homography)


class MyHomography(nn.Module):
    def __init__(self):
        super().__init__()
        self.homography = nn.Parameter(torch.eye(3))

    def forward(self):
        return torch.unsqueeze(self.homography, dim=0)  # 1x3x3


dst_homo_src = MyHomography()
optimizer = torch.optim.Adam(dst_homo_src.parameters(), lr=2e-3)

for iter_idx in range(60):
    img_src_to_dst = warper(img_src, dst_homo_src())
    loss = F.l1_loss(img_src_to_dst, img_dst, reduction="none")
    ones = warper(torch.ones_like(img_src), dst_homo_src())
    loss = loss.masked_select(ones > 0.9).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if iter_idx % 20 == 0:
        print(f"Loss: {loss.item():.5f}")
print(dst_homo_src.homography.data)
