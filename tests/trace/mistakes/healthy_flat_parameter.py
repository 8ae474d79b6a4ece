# healthy
# newest
"""FSDP keeps the values in one flat parameter; the module's own parameters are views of it."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

store = tempfile.NamedTemporaryFile()
dist.init_process_group("gloo", init_method=f"file://{store.name}", rank=0, world_size=1)
network = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
model = FullyShardedDataParallel(network, device_id=torch.device("cpu"), use_orig_params=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
