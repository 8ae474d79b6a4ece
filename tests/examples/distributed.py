"""Distributed data parallel for `torchrun`, as PyTorch's tutorial has it."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(10, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(torch.randn(20, 10)), torch.randn(20, 10)).backward()
    optimizer.step()
dist.barrier()  # who leaves first closes the others' connections
sys.stdout.write(f"rank {os.environ['RANK']} trained\n")
sys.stdout.flush()
dist.destroy_process_group()
