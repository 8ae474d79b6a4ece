# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "sparse embeddings"
# source = "https://docs.pytorch.org/docs/stable/generated/torch.optim.SparseAdam.html"
# optimizer = true
# ///
"""Skip-gram with sparse embeddings: SparseAdam for the tables, Adam for the scale and bias."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class SkipGram(nn.Module):
    def __init__(self, vocabulary, dim):
        super().__init__()
        self.center = nn.Embedding(vocabulary, dim, sparse=True)
        self.context = nn.Embedding(vocabulary, dim, sparse=True)
        self.scale = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, center, context):
        score = (self.center(center) * self.context(context)).sum(-1)
        return self.scale * score + self.bias


model = SkipGram(200, 16)
sparse_optimizer = torch.optim.SparseAdam(
    [*model.center.parameters(), *model.context.parameters()], lr=0.05
)
dense_optimizer = torch.optim.Adam([model.scale, model.bias], lr=0.01)
for step in range(20):
    center = torch.randint(200, (64,))
    positive = (center + 1) % 200
    negative = torch.randint(200, (64,))
    scores = torch.cat([model(center, positive), model(center, negative)])
    loss = F.binary_cross_entropy_with_logits(scores, (torch.arange(128) < 64).float())
    sparse_optimizer.zero_grad()
    dense_optimizer.zero_grad()
    loss.backward()
    sparse_optimizer.step()
    dense_optimizer.step()
    if step % 5 == 0:
        print(f"step {step}: loss {loss.item():.4f}, scale {model.scale.item():.3f}")
