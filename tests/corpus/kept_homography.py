# /// script
# dependencies = ["kornia"]
# [tool.corpus]
# environment = "vision"
# field = "image registration"
# source = "https://kornia.readthedocs.io/en/latest/applications/image_registration.html"
# optimizer = true
# kept_out = true
# ///
"""A homography between two images is learned by warping one onto the other, coarse to fine."""

import kornia as K
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
img = K.filters.gaussian_blur2d(torch.rand(1, 1, 48, 48), (9, 9), (2.0, 2.0))
true_H = torch.tensor([[[1.0, 0.04, 0.06], [-0.03, 1.0, -0.05], [0.0, 0.0, 1.0]]])
target = K.geometry.homography_warp(img, true_H, (48, 48))


class MyHomography(nn.Module):
    def __init__(self):
        super().__init__()
        self.homo = nn.Parameter(torch.eye(3).unsqueeze(0))

    def forward(self):
        return self.homo / self.homo[:, 2:3, 2:3]


model = MyHomography()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
pyramid = [K.geometry.transform.build_pyramid(x, 3) for x in (img, target)]


def level_loss(src, dst, homography):
    warped = K.geometry.homography_warp(src, homography, dst.shape[-2:])
    inside = K.geometry.homography_warp(torch.ones_like(src), homography, dst.shape[-2:])
    diff = (warped - dst).abs()
    return diff[inside > 0.9].mean()


for level in (2, 1, 0):
    for iteration in range(8):
        loss = level_loss(pyramid[0][level], pyramid[1][level], model())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(level, round(loss.item(), 5), F.mse_loss(model(), true_H).item())
