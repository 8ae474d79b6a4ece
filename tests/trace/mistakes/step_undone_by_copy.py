# cause: not-trained

import copy

import torch
from torch import nn


class Average:
    def __init__(self, model):
        self.shadow = copy.deepcopy(model)

    @torch.no_grad()
    def update(self, model):
        for mean, parameter in zip(self.shadow.parameters(), model.parameters()):
            parameter.copy_(mean)  # here


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
average = Average(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    model(torch.randn(6, 4)).square().mean().backward()
    optimizer.step()
    average.update(model)
