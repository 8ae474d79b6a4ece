# /// script
# dependencies = ["torchvision"]
# [tool.corpus]
# environment = "vision"
# field = "feature visualisation"
# source = "https://github.com/gordicaleksa/pytorch-deepdream"
# optimizer = false
# kept_out = true
# ///
"""DeepDream: the image is changed by gradient ascent until layers of SqueezeNet are excited."""

import torch
from torchvision import models

torch.manual_seed(3)
model = models.squeezenet1_1(weights=None).features.eval()
for p in model.parameters():
    p.requires_grad_(False)

LAYERS_TO_USE = [4, 7]
LOWER, UPPER = -2.0, 2.0


def get_activations(x):
    activations = []
    for i, layer in enumerate(model):
        x = layer(x)
        if i in LAYERS_TO_USE:
            activations.append(x)
        if i == max(LAYERS_TO_USE):
            return activations


def gradient_ascent(input_tensor, lr):
    activations = get_activations(input_tensor)
    losses = [torch.norm(torch.flatten(a), p=2) for a in activations]
    loss = torch.mean(torch.stack(losses))
    loss.backward()
    grad = input_tensor.grad.data
    smooth_grad = grad / torch.std(grad)
    input_tensor.data += lr * smooth_grad
    input_tensor.grad.data.zero_()
    input_tensor.data = torch.max(torch.min(input_tensor, torch.tensor(UPPER)), torch.tensor(LOWER))
    return loss.item()


image = torch.rand(1, 3, 32, 32) * 0.2
for octave in range(2):
    image = torch.nn.functional.interpolate(image, scale_factor=1.3, mode="bilinear")
    image = image.detach().requires_grad_(True)
    for iteration in range(6):
        score = gradient_ascent(image, lr=0.09)
        print(octave, iteration, round(score, 5))
