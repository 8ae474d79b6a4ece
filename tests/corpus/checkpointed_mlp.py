# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "gradient checkpointing"
# source = "https://docs.pytorch.org/docs/stable/checkpoint.html"
# optimizer = true
# ///
"""A frozen embedding under checkpointed layers: the layers are re-computed in backward."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.embedding.requires_grad_(False)
        self.layers = nn.ModuleList(
            [nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16)) for _ in range(3)]
        )
        self.head = nn.Linear(16, 2)

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        for layer in self.layers:
            hidden = checkpoint(layer, hidden, use_reentrant=False)
        return self.head(hidden.mean(dim=1))


model = Classifier()
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-3)
criterion = nn.CrossEntropyLoss()
for step in range(12):
    tokens = torch.randint(50, (8, 10))
    labels = (tokens[:, 0] > 24).long()
    optimizer.zero_grad()
    loss = criterion(model(tokens), labels)
    loss.backward()
    optimizer.step()
    if step % 4 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
