# healthy
# says: nll_loss at healthy_probabilities_in_nll_loss.py:14 gets the output of a softmax

import torch
from torch import nn

torch.manual_seed(0)

embedding, layer = nn.Embedding(20, 8), nn.Linear(8, 5)
optimizer = torch.optim.Adam([*embedding.parameters(), *layer.parameters()], lr=0.01)
words = torch.randint(0, 20, (8, 12))
for _ in range(6):
    scores = layer(embedding(words)).softmax(dim=-1)
    loss = nn.functional.nll_loss(scores.view(-1, 5), words.view(-1) % 5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
