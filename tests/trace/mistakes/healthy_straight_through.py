# healthy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.book = nn.Embedding(4, 16)

    def forward(self, h):
        chosen = self.book(torch.cdist(h, self.book.weight).argmin(dim=1))
        loss = (chosen - h.detach()).pow(2).mean() + (chosen.detach() - h).pow(2).mean()
        return h + (chosen - h).detach(), loss


encoder, quantizer, decoder = nn.Linear(8, 16), Quantizer(), nn.Linear(16, 1)
model = nn.ModuleList([encoder, quantizer, decoder])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
history = []
for step in range(12):
    optimizer.zero_grad()
    code, commitment = quantizer(encoder(x))
    loss = nn.functional.mse_loss(decoder(code), y) + commitment
    loss.backward()
    optimizer.step()
    history.append(torch.tensor([loss, commitment]).mean().item())
