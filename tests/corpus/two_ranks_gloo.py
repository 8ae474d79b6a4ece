# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "distributed training"
# source = "https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html"
# optimizer = true
# ///
"""DistributedDataParallel on two processes with gloo, started by torch.multiprocessing."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def demo_basic(rank, world_size, file):
    dist.init_process_group("gloo", f"file://{file}", rank=rank, world_size=world_size)
    torch.manual_seed(0)
    ddp_model = DDP(ToyModel())
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.05)
    torch.manual_seed(rank)
    for step in range(8):
        inputs = torch.randn(20, 10)
        optimizer.zero_grad()
        outputs = ddp_model(inputs)
        loss = loss_fn(outputs, inputs[:, :5])
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(demo_basic, args=(2, os.path.join(folder, "store")), nprocs=2, join=True)
