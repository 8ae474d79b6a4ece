# /// script
# dependencies = ["torchvision"]
# [tool.corpus]
# environment = "vision"
# field = "Image synthesis"
# source = "https://pytorch.org/tutorials/advanced/neural_style_tutorial.html"
# optimizer = true
# ///
"""Neural style: L-BFGS changes the pixels of an image; the network has nothing to learn."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import vgg11

torch.manual_seed(0)
cnn = vgg11(weights=None).features[:11].eval()
grid = torch.linspace(0, 12, 48)
style_img = ((grid[:, None] + grid[None, :]).sin() > 0).float().expand(1, 3, 48, 48)
content_img = (
    ((grid[:, None] - 6) ** 2 + (grid[None, :] - 6) ** 2 < 16).float().expand(1, 3, 48, 48)
)


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    return torch.mm(features, features.t()).div(a * b * c * d)


def get_features(x):
    features = []
    for layer in cnn:
        x = F.relu(x) if isinstance(layer, nn.ReLU) else layer(x)
        if isinstance(layer, nn.Conv2d):
            features.append(x)
    return features


style_targets = [gram_matrix(f).detach() for f in get_features(style_img)]
content_target = get_features(content_img)[-1].detach()

# We want to optimize the input and not the model parameters
input_img = content_img.clone().requires_grad_(True)
cnn.requires_grad_(False)
optimizer = torch.optim.LBFGS([input_img], max_iter=4)

for run in range(6):

    def closure():
        # correct the values of updated input image
        with torch.no_grad():
            input_img.clamp_(0, 1)
        optimizer.zero_grad()
        features = get_features(input_img)
        style_score = sum(F.mse_loss(gram_matrix(f), t) for f, t in zip(features, style_targets))
        content_score = F.mse_loss(features[-1], content_target)
        loss = 1e6 * style_score + content_score
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print(f"run {run}: loss {loss.item():.5f}")

# a last correction...
with torch.no_grad():
    input_img.clamp_(0, 1)
