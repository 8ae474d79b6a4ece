# /// script
# dependencies = ["torch-optimizer"]
# [tool.corpus]
# environment = "language"
# field = "optimizers"
# source = "https://pytorch-optimizer.readthedocs.io/en/latest/api.html"
# optimizer = true
# ///
"""Lamb inside of Lookahead, both from torch-optimizer, on a small recurrent tagger."""

import torch
import torch_optimizer as optim
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.lstm = nn.LSTM(16, 24, batch_first=True)
        self.tag = nn.Linear(24, 3)

    def forward(self, tokens):
        hidden, _ = self.lstm(self.embedding(tokens))
        return self.tag(hidden)


model = Tagger()
lamb = optim.Lamb(model.parameters(), lr=2e-2, betas=(0.9, 0.999), weight_decay=0)
optimizer = optim.Lookahead(lamb, k=5, alpha=0.5)
for step in range(15):
    tokens = torch.randint(30, (8, 9))
    tags = tokens.cumsum(1) % 3
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).transpose(1, 2), tags)
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
