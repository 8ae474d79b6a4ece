# cause: not-registered
# says: `norms` of `model` (Layers) is not registered either

import torch
from torch import nn


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(8, 8) for _ in range(3)]  # here
        self.norms = [nn.LayerNorm(8) for _ in range(3)]
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = norm(layer(x)).relu()
        return self.head(x)


model = Layers()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(6):
    loss = nn.functional.cross_entropy(model(torch.randn(6, 8)), torch.randint(3, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
