# cause: graph-freed
# says: carried from one iteration to the next
# says: detach()
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 20)

    def forward(self, tokens, state):
        hidden, state = self.lstm(self.embedding(tokens), state)
        return self.head(hidden), state


torch.manual_seed(0)
text = torch.randint(0, 20, (8, 41))
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
state = (torch.zeros(1, 8, 16), torch.zeros(1, 8, 16))
for start in range(0, 40, 5):
    inputs, targets = text[:, start : start + 5], text[:, start + 1 : start + 6]
    scores, state = model(inputs, state)  # here
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
