"""A small transformer that trains, with a slowdown of known size that a comparison should find.

After every optimizer step it keeps the processor busy for some per cent of the step's time (the
environment variable SLOWER_PER_CENT, by default 0). As a command it makes the given number of
steps, by default 100.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import torch
from torch import nn

WIDTH, LENGTH, BATCH = 64, 32, 8


class Slowed(torch.optim.SGD):
    """Stochastic gradient descent whose step keeps the processor busy for a while."""

    def __init__(self, parameters: Any, share: float) -> None:
        super().__init__(parameters, lr=0.01)
        self.share = share
        self.since = time.process_time()

    def step(self, closure: Any = None) -> Any:
        """A step, then the extra time."""
        loss = super().step(closure)
        now = time.process_time()
        until = now + self.share * (now - self.since)
        while self.share and time.process_time() < until:
            pass
        self.since = time.process_time()
        return loss


def stepper(device: str = "cpu") -> Any:
    """A function that makes one optimizer step on random data."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    data = torch.randn(BATCH, LENGTH, WIDTH, device=device)
    optimizer = Slowed(model.parameters(), float(os.environ.get("SLOWER_PER_CENT", "0")) / 100)

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def train(variant: str, device: str, steps: int) -> None:
    """Make ``steps`` steps; there is one variant, ``control``."""
    assert variant == "control"
    step = stepper(device)
    for _ in range(steps):
        step()


if __name__ == "__main__":
    train("control", "cpu", int(sys.argv[1]) if len(sys.argv) > 1 else 100)
