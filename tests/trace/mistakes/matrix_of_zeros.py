# cause: zero
# says: An integer division may have made it 0

import torch
from torch import nn

torch.manual_seed(0)


class Graph(nn.Module):
    def __init__(self, adjacency):
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 2)
        self.weights = ((1 // adjacency.sum(1))[:, None] * adjacency).float()

    def forward(self, x):
        return self.weights @ self.second(torch.relu(self.weights @ self.first(x)))


links = (torch.rand(40, 40) < 0.3).long() + torch.eye(40).long()
model = Graph(links)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(40, 6), torch.randint(0, 2, (40,))
for _ in range(6):
    loss = nn.functional.cross_entropy(model(x), y)  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
