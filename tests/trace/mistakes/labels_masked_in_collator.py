# cause: labels-ignored
# says: -100
import torch
from torch import nn

torch.manual_seed(0)
rows = [list(range(1, 4 + n % 5)) for n in range(32)]


def collate(rows):
    width = 4
    tokens = torch.zeros(len(rows), width, dtype=torch.long)
    batch = {"tokens": tokens, "labels": torch.full_like(tokens, -100)}  # here
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = torch.tensor(row)[:width]
        batch["labels"][index, width:] = tokens[index, width:]
    valid = batch["labels"] != -100
    batch["count"] = valid.sum()
    return batch


model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for batch in torch.utils.data.DataLoader(rows, batch_size=8, collate_fn=collate):
    scores = model(batch["tokens"]).flatten(0, 1)
    loss = nn.functional.cross_entropy(scores, batch["labels"].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
