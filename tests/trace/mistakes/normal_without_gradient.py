# cause: detached
# says: torch.randn_like(std)
# torch.normal has a gradient of zero: the encoder learns by the KL term alone.
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8))
decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)


def sample(mean, log_variance):
    std = torch.exp(0.5 * log_variance)
    return torch.normal(mean, std)  # here


for step in range(8):
    x = torch.rand(16, 20)
    mean, log_variance = encoder(x).chunk(2, dim=-1)
    output = decoder(sample(mean, log_variance))
    kl = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(dim=1).mean()
    loss = F.mse_loss(output, x) + 0.01 * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
