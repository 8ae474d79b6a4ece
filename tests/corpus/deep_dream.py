# /// script
# dependencies = ["torchvision"]
# [tool.corpus]
# environment = "vision"
# field = "Image synthesis"
# source = "https://github.com/gordicaleksa/pytorch-deepdream"
# optimizer = false
# ///
"""Deep dream: gradient ascent on the pixels by hand, with the gradient made smooth and scaled."""

import torch
from torchvision.models import resnet18

torch.manual_seed(0)
model = resnet18(weights=None).eval()
for param in model.parameters():
    param.requires_grad = False
layers = torch.nn.Sequential(*list(model.children())[:6])


def gradient_ascent(img, lr=0.09):
    out = layers(img)
    loss = torch.nn.MSELoss(reduction="mean")(out, torch.zeros_like(out))
    loss.backward()
    grad = img.grad.data
    smooth_grad = torch.nn.functional.avg_pool2d(grad, 3, stride=1, padding=1)
    g_norm = smooth_grad / smooth_grad.std()
    img.data += lr * g_norm
    img.grad.data.zero_()
    img.data = torch.clamp(img, -2, 2).data
    return loss.item()


img = torch.randn(1, 3, 48, 48) * 0.2
for level in range(3):
    size = 48 + 16 * level
    img = torch.nn.functional.interpolate(img, size=(size, size), mode="bilinear")
    img = img.detach().requires_grad_(True)
    for it in range(8):
        loss = gradient_ascent(img)
    print(f"level {level}: activation {loss:.4f}")
