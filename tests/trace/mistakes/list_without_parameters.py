# cause: not-registered
# says: Make `layers` an nn.ModuleList

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = []  # here
        for first, second in zip(sizes, sizes[1:]):
            self.layers += [nn.Linear(first, second), nn.ReLU()]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


net = Net([6, 16, 1])
torch.optim.Adam(net.parameters(), lr=1e-3)
