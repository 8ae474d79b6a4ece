# healthy: a scaler and plain steps: divided by unscale_ or by hand, no scale, another loss
# newest
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randn(32, 1)


def train(scaler, divide, also=False):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    critic = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    other = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(8):
        optimizer.zero_grad()
        output = model(x)
        scaler.scale(nn.functional.mse_loss(output, y)).backward()
        divide(scaler, optimizer)
        optimizer.step()
        other.zero_grad()
        nn.functional.mse_loss(critic(output.detach()), y).backward()
        other.step()


def by_hand(scaler, optimizer):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = parameter.grad / scaler.get_scale()


for scaler, divide in (
    (torch.amp.GradScaler("cpu", init_scale=128.0), by_hand),
    (torch.amp.GradScaler("cpu", enabled=False), lambda *_: None),
    (torch.amp.GradScaler("cpu", init_scale=1.0), lambda *_: None),
):
    torch.manual_seed(0)
    train(scaler, divide)
