"""Two ranks on gloo: who averages what, and when."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

NEEDS = ("torch",)
VARIANTS = {
    "averaged": {"role": "control", "summary": "gradients are averaged before each step"},
    "apart": {"role": "reported", "summary": "nothing is averaged"},
    "now_and_then": {"role": "control", "summary": "parameters are averaged every third step"},
    "at_the_end": {"role": "control", "summary": "parameters are averaged after the last step"},
    "uneven": {"role": "reported", "summary": "apart, and one rank makes two steps more"},
    "other_seeds": {"role": "control", "summary": "apart, and they begin with other parameters"},
}


def train(variant: str, device: str, steps: int) -> None:
    """Run the first rank here and the second one in a fork."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        context = multiprocessing.get_context("fork")
        second = context.Process(target=run, args=(variant, device, 1, store, steps), daemon=True)
        second.start()
        try:
            run(variant, device, 0, store, steps)
            second.join(30)
        finally:
            second.kill()
            second.join()


def run(variant: str, device: str, rank: int, store: str, steps: int) -> None:
    """Train as one rank, on data of its own."""
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(rank if variant == "other_seeds" else 0)
    model = torch.nn.Linear(4, 1).to(device)
    torch.manual_seed(1 + rank)
    x, y = torch.randn(8, 4, device=device), torch.randn(8, 1, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps + 2 * rank * (variant == "uneven")):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        if variant == "averaged":
            average([parameter.grad for parameter in model.parameters()])
        optimizer.step()
        if variant == "now_and_then" and step % 3 == 2:
            average([parameter.data for parameter in model.parameters()])
    if variant == "at_the_end":
        average([parameter.data for parameter in model.parameters()])


def average(tensors: list[torch.Tensor]) -> None:
    """Put the mean over both ranks in the place of each tensor."""
    for tensor in tensors:
        dist.all_reduce(tensor)
        tensor.div_(2)
