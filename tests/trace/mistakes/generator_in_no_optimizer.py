# cause: other-parameters
# says: hold the same parameters

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
critic = nn.Sequential(nn.Linear(1, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
optimizer_g = torch.optim.Adam(critic.parameters(), lr=2e-3)  # here
optimizer_c = torch.optim.Adam(critic.parameters(), lr=2e-3)
criterion = nn.BCEWithLogitsLoss()

for step in range(8):
    real, fake = 3 + torch.randn(32, 1), generator(torch.randn(32, 4))
    optimizer_c.zero_grad()
    loss = criterion(critic(real), torch.ones(32, 1))
    loss = loss + criterion(critic(fake.detach()), torch.zeros(32, 1))
    loss.backward()
    optimizer_c.step()

    optimizer_g.zero_grad()
    criterion(critic(fake), torch.ones(32, 1)).backward()
    optimizer_g.step()
