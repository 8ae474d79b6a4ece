# cause: detached
# says: straight through

import torch
from torch import nn

torch.manual_seed(0)


class CodeBook(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("vectors", torch.randn(8, 4))

    def forward(self, z):
        chosen = torch.cdist(z, self.vectors).argmin(1)  # here
        q = self.vectors[chosen]
        with torch.no_grad():  # a moving average of what was assigned to each vector
            for number in chosen.unique():
                self.vectors[number] += 0.1 * (z[chosen == number].mean(0) - self.vectors[number])
        return q, nn.functional.mse_loss(z, q.detach())


encoder, book, decoder = nn.Linear(10, 4), CodeBook(), nn.Linear(4, 10)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=3e-3)
for step in range(8):
    x = torch.randn(64, 10)
    q, commitment = book(encoder(x))
    loss = nn.functional.mse_loss(decoder(q), x) + 0.25 * commitment
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
