# cause: never-stepped

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def fit(self, x, y, warm=1000):
        for n in range(20):
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            if n < warm:  # here
                continue
            self.opt.step()
            self.opt.zero_grad()


torch.manual_seed(0)
if __name__ == "__main__":
    Trainer().fit(torch.randn(8, 4), torch.randn(8, 1))
