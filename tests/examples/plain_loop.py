"""A training loop as PyTorch's tutorials write it: gradient accumulation, and a checkpoint at the end."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 2


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(8 * 8, 64),
            nn.ReLU(),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, x):
        x = self.flatten(x)
        return self.linear_relu_stack(x)


def train_loop(dataloader, model, loss_fn, optimizer):
    model.train()
    for batch, (X, y) in enumerate(dataloader):
        pred = model(X)
        loss = loss_fn(pred, y) / ACCUMULATE
        loss.backward()
        if (batch + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()


def test_loop(dataloader, model, loss_fn):
    model.eval()
    test_loss = 0.0
    with torch.no_grad():
        for X, y in dataloader:
            test_loss += loss_fn(model(X), y).item()
    return test_loss / len(dataloader)


torch.manual_seed(0)
data = TensorDataset(torch.randn(256, 1, 8, 8), torch.randint(10, (256,)))
train_dataloader = DataLoader(data, batch_size=16, shuffle=True, num_workers=1)
test_dataloader = DataLoader(data, batch_size=64)

model = NeuralNetwork()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-1, momentum=0.9)

for t in range(3):
    train_loop(train_dataloader, model, loss_fn, optimizer)
    print(f"Epoch {t + 1}, test loss {test_loop(test_dataloader, model, loss_fn):>8f}")
torch.save(model.state_dict(), "model.pth")
print("Done!")
