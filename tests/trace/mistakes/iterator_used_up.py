# cause: other-parameters
# says: its iterator of parameters was gone through before
# says: No optimizer holds the parameters of `encoder`
# says: Make a list of it

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(8, 3), nn.Linear(3, 8)
trained = filter(lambda p: p.requires_grad, encoder.parameters())
print(sum(p.numel() for p in trained))
optimizer = torch.optim.SGD(  # here
    [{"params": trained, "lr": 0.01}, {"params": decoder.parameters()}], lr=0.1
)
data = torch.randn(32, 8)

for step in range(8):
    optimizer.zero_grad()
    nn.functional.mse_loss(decoder(encoder(data)), data).backward()
    optimizer.step()
