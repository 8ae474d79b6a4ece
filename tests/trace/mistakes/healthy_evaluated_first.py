# healthy
# One function for training and evaluation, and the model is evaluated before it is trained.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
data = [(torch.randn(16, 6), torch.randint(0, 3, (16,))) for _ in range(4)]


def run(optimizer=None):
    model.train(optimizer is not None)
    total = 0.0
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in data:
            loss = nn.functional.cross_entropy(model(x), y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item()
    return total / len(data)


run()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(3):
    run(optimizer)
    run()
