# healthy
# says: weights that had learned are initialised again at healthy_initialised_each_epoch.py:21, 3 times

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 6), torch.randn(64, 1)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def init_weights(module):
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.normal_(module.bias.data, std=0.1)


def train_one_epoch():
    model.train()
    model.apply(init_weights)
    for batch in torch.randperm(len(x)).split(8):
        loss = nn.functional.mse_loss(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


for epoch in range(4):
    train_one_epoch()
