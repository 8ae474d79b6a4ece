"""What a notebook does with Accelerate's notebook_launcher: two forked processes on a CPU."""

import sys

import torch
from accelerate import Accelerator, notebook_launcher
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def training_function(steps):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = nn.Linear(10, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    data = TensorDataset(torch.randn(8 * steps, 10), torch.randn(8 * steps, 10))
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=4))
    for inputs, targets in loader:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.mse_loss(model(inputs), targets))
        optimizer.step()
    accelerator.print("trained")


notebook_launcher(training_function, (int(sys.argv[1]),), num_processes=2)
