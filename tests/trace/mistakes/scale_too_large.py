# cause: steps-skipped
# newest
# says: init_scale
import torch
from torch import nn


class Trainer:
    def __init__(self, model, scale):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale)  # here

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)  # here
        self.scaler.update()


torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1) * 1e6
trainer = Trainer(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)), 2.0**120)
for step in range(8):
    trainer.step(x, y)
