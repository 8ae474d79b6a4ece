# cause: labels-ignored
# says: -100
import torch
from torch import nn


class Pairs:
    def __init__(self, tokens, prompt):
        self.tokens, self.prompt = tokens, prompt

    def __getitem__(self, index):
        tokens = self.tokens[index]
        labels = tokens.clone()
        labels[: self.prompt] = -100  # here
        return tokens, labels

    def __len__(self):
        return len(self.tokens)


torch.manual_seed(0)
data = Pairs(torch.randint(1, 20, (32, 10)), prompt=12)
loader = torch.utils.data.DataLoader(data, batch_size=8)
model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(2):
    for tokens, labels in loader:
        scores = model(tokens)[:, :-1].flatten(0, 1)
        loss = nn.functional.cross_entropy(scores, labels[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
