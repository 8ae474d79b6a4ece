# /// script
# dependencies = ["zuko"]
# [tool.corpus]
# environment = "science"
# field = "Normalizing flows"
# source = "https://zuko.readthedocs.io/stable/tutorials/basics.html"
# optimizer = true
# ///
"""A neural spline flow of zuko learns two moons by maximum likelihood."""

import math

import torch
import torch.utils.data as data
import zuko

torch.manual_seed(0)


def two_moons(n, sigma=0.1):
    theta = 2 * math.pi * torch.rand(n)
    label = (theta > math.pi).float()
    x = torch.stack((torch.cos(theta) + label - 0.5, torch.sin(theta) + label / 2 - 0.25), dim=-1)
    return torch.normal(x, sigma), label


samples, labels = two_moons(1024)
trainset = data.TensorDataset(samples, labels)
trainloader = data.DataLoader(trainset, batch_size=64, shuffle=True)

flow = zuko.flows.NSF(features=2, transforms=2, hidden_features=(32, 32))
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)

for epoch in range(2):
    losses = []
    for x, label in trainloader:
        loss = -flow().log_prob(x).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    losses = torch.stack(losses)
    print(f"({epoch})", losses.mean().item(), "±", losses.std().item())

print("samples:", flow().sample((2,)).tolist())
