# healthy
# remark

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def train(rank, size, store, every, steps):
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=size)
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    torch.manual_seed(rank)
    x, y = torch.randn(32, 8), torch.randn(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        if step % every == 0:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data)
                parameter.data /= size
    dist.barrier()  # else the other one may lose its connection
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(2, os.path.join(folder, "store"), 3, 8), nprocs=2)
