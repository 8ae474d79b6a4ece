# cause: detached
# says: z + (z_q - z).detach()
# The decoder gets the code book's vectors: its loss does not reach the encoder.
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.book = nn.Embedding(16, 8)

    def forward(self, z):
        distance = (z**2).sum(1, keepdim=True) + (self.book.weight**2).sum(1)
        distance = distance - 2 * z @ self.book.weight.t()
        z_q = self.book(torch.argmin(distance, dim=1))  # here
        loss = F.mse_loss(z_q, z.detach()) + 0.25 * F.mse_loss(z_q.detach(), z)
        return z_q, loss


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8))
        self.quantizer = Quantizer()
        self.decoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 20))

    def forward(self, x):
        z_q, loss = self.quantizer(self.encoder(x))
        return self.decoder(z_q), loss


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(8):
    x = torch.rand(32, 20)
    output, loss = model(x)
    loss = loss + F.mse_loss(output, x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
