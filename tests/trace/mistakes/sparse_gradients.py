# cause: exception
# says: The gradients of `table.weight` are sparse

import torch
from torch import nn

torch.manual_seed(0)
words, labels = torch.randint(0, 50, (32, 6)), torch.randint(0, 2, (32,))


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(50, 16, mode="mean", sparse=True)  # here
        self.last = nn.Linear(16, 2)

    def forward(self, words):
        return self.last(self.table(words))


model = Bag()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(8):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(words), labels).backward()
    optimizer.step()
