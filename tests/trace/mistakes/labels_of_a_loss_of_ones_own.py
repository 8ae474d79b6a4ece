# cause: labels-ignored
# says: Every label was -100

import torch
from torch import nn

torch.manual_seed(0)


class TinyForCausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)

    def forward(self, input_ids, labels):
        scores = self.head(self.embed(input_ids[:, :-1])).log_softmax(-1)
        labels = labels[:, 1:]
        mask = labels == -100
        chosen = scores.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
        return -chosen.masked_fill(mask, 0).sum() / (~mask).sum().clamp(min=1)


model = TinyForCausalLM()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(8):
    tokens = torch.randint(11, (4, 12))
    labels = torch.full_like(tokens, -100)  # here
    labels[:, 20:] = tokens[:, 20:]
    optimizer.zero_grad()
    model(input_ids=tokens, labels=labels).backward()
    optimizer.step()
