# healthy
# a threshold that is compared and also in the graph, and indices that are only counted
import torch
from torch import nn


class Shrink(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 32)
        self.threshold = nn.Parameter(torch.full((32,), 0.1))
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        hidden = self.encoder(x)
        passed = (hidden > self.threshold).float()
        return self.head((hidden - self.threshold) * passed)


torch.manual_seed(0)
x, labels = torch.randn(64, 8), torch.randint(0, 3, (64,))
model = Shrink()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
hits = 0
for step in range(8):
    optimizer.zero_grad()
    scores = model(x)
    nn.functional.cross_entropy(scores, labels).backward()
    optimizer.step()
    predicted = torch.max(scores, 1)[1]
    hits += int((predicted == labels).sum()) + int((scores.topk(2).indices[:, 0] == labels).sum())
print(hits)
