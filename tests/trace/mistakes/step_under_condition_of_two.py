# cause: never-stepped
# says: a condition that never let it run
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randn(64, 1)
body, head = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 1)
of_body = torch.optim.Adam(body.parameters(), lr=0.001)
of_head = torch.optim.Adam(head.parameters(), lr=0.01)
warmup = 100


def train():
    for step in range(20):
        loss = nn.functional.mse_loss(head(body(x)), y)
        of_body.zero_grad()
        of_head.zero_grad()
        loss.backward()
        of_head.step()
        if step > warmup:  # here
            of_body.step()  # here


train()
