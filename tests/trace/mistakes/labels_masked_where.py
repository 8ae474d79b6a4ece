# cause: labels-ignored
# says: Every label was 0
import torch
from torch import nn

PAD = 0
torch.manual_seed(0)
tokens = torch.randint(1, 20, (32, 10))
mask = torch.zeros(32, 10, dtype=torch.bool)
labels = torch.where(mask, tokens, PAD)  # here
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(8):
    loss = criterion(model(tokens).flatten(0, 1), labels.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
