"""Parameters with small changes that are hard to see: large, sparse, or by a single bit."""

# ruff: noqa: D103  (a variant's summary is in VARIANTS)

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from tests.fakes.loop import descend

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = ("torch",)

VARIANTS = {
    "odd_columns": {
        "role": "control",
        "summary": "three rows of a large table change, outside of any sample",
    },
    "opposite": {
        "role": "control",
        "summary": "two numbers of a large table change by opposite amounts",
    },
    "transposed": {
        "role": "control",
        "summary": "one number changes of a large parameter that is not contiguous",
    },
    "half_table": {"role": "control", "summary": "one number changes of a large table in bfloat16"},
    "last_number": {
        "role": "control",
        "summary": "the last number changes of a parameter that is just large",
    },
    "one_bit": {
        "role": "control",
        "summary": "one number of a small parameter changes by its last bit",
    },
    "large_still": {"role": "reported", "summary": "a large table and a learning rate of 0"},
}

ROWS, SIDE, LARGE = 600_000, 1 << 11, 1 << 20


def train(variant: str, device: str, steps: int) -> None:
    """Take `steps` steps of the variant's loop."""
    torch.manual_seed(0)
    loop: Iterator[None] = globals()[variant](device)
    for _ in zip(range(steps), loop, strict=False):
        pass


class Table(nn.Module):  # type: ignore[misc]  # torch is not installed where this is checked
    """A parameter."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, row: int, column: int) -> torch.Tensor:
        """One number of it, squared."""
        return self.weight[row, column].float().square()


def odd_columns(device: str) -> Iterator[None]:
    table = Table(torch.randn(ROWS, 4, device=device))
    return descend(
        torch.optim.SGD(table.parameters(), lr=0.1),
        lambda: table(0, 1) + table(77, 3) + table(ROWS - 1, 1),
    )


def opposite(device: str) -> Iterator[None]:
    table = Table(torch.ones(ROWS, 4, device=device))
    return descend(torch.optim.SGD(table.parameters(), lr=0.25), lambda: table(5, 1) - table(6, 1))


def transposed(device: str) -> Iterator[None]:
    table = Table(torch.randn(SIDE, SIDE, device=device).t())
    return descend(torch.optim.SGD(table.parameters(), lr=0.1), lambda: table(SIDE - 1, 3))


def half_table(device: str) -> Iterator[None]:
    table = Table(torch.ones(ROWS, 4, device=device, dtype=torch.bfloat16))
    return descend(torch.optim.SGD(table.parameters(), lr=0.1), lambda: table(5, 1))


def last_number(device: str) -> Iterator[None]:
    table = Table(torch.ones(LARGE + 1, 1, device=device))
    return descend(torch.optim.SGD(table.parameters(), lr=0.1), lambda: table(LARGE, 0))


def one_bit(device: str) -> Iterator[None]:
    table = Table(torch.ones(3, 3, device=device))
    return descend(torch.optim.SGD(table.parameters(), lr=3e-8), lambda: table(2, 2))


def large_still(device: str) -> Iterator[None]:
    table = Table(torch.ones(ROWS, 4, device=device))
    return descend(torch.optim.SGD(table.parameters(), lr=0.0), lambda: table(0, 0))
