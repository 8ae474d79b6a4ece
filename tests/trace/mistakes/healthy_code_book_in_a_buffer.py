# healthy

import torch
from torch import nn

torch.manual_seed(0)


class CodeBook(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("vectors", torch.randn(8, 4))

    def forward(self, z):
        chosen = torch.cdist(z, self.vectors).argmin(1)
        q = self.vectors[chosen]
        with torch.no_grad():
            for number in chosen.unique():
                self.vectors[number] += 0.1 * (z[chosen == number].mean(0) - self.vectors[number])
        return q, nn.functional.mse_loss(z, q.detach())


encoder, book, decoder = nn.Linear(10, 4), CodeBook(), nn.Linear(4, 10)
probe = nn.Linear(4, 2)  # it only reads the vectors
models = nn.ModuleList([encoder, decoder, probe])
optimizer = torch.optim.Adam(models.parameters(), lr=3e-3)
for step in range(8):
    x = torch.randn(64, 10)
    z = encoder(x)
    q, commitment = book(z)
    loss = nn.functional.mse_loss(decoder(z + (q - z).detach()), x) + 0.25 * commitment
    loss = loss + nn.functional.cross_entropy(probe(q), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
