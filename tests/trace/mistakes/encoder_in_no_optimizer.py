# cause: other-parameters

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(8, 3), nn.Linear(3, 8)
encoder_optimizer = torch.optim.SGD(decoder.parameters(), lr=0.01)  # here
decoder_optimizer = torch.optim.SGD(decoder.parameters(), lr=0.01)  # here
data = torch.randn(32, 8)

for step in range(8):
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    nn.functional.mse_loss(decoder(encoder(data)), data).backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
