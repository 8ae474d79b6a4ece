# cause: labels-ignored
# says: -100
import torch
from torch import nn

torch.manual_seed(0)
tokens = torch.randint(1, 20, (32, 10))
lengths = torch.randint(5, 10, (32,))
padding = torch.arange(10) < lengths.max() + 1
labels = tokens.masked_fill(padding, -100)  # here
model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(8):
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
