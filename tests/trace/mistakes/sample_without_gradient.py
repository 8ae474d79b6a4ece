# cause: detached
# says: rsample()
# A conditional VAE whose encoder learns by the KL term alone.
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal, kl_divergence

torch.manual_seed(0)


class ConditionalVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 20))

    def forward(self, x, y):
        mean, log_std = self.encoder(x).chunk(2, dim=-1)
        posterior = Normal(mean, log_std.exp())
        z = posterior.sample()  # here
        return self.decoder(torch.cat([z, y], dim=-1)), posterior


model = ConditionalVAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(8):
    x, y = torch.rand(16, 20), torch.rand(16, 3)
    output, posterior = model(x, y)
    kl = kl_divergence(posterior, Normal(0.0, 1.0)).sum(dim=1).mean()
    loss = F.mse_loss(output, x) + 0.01 * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
