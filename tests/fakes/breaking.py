"""Numbers that break: NaN, infinities, and gradients that are exactly zero."""

# ruff: noqa: ANN401, D103  (torch has no types here; a variant's summary is in VARIANTS)

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tests.fakes.loop import Block, Model, batch, descend, descend_on, error

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = ("torch",)

VARIANTS = {
    "nan_hook": {"role": "reported", "summary": "a hook makes one gradient NaN"},
    "infinite_hook": {"role": "reported", "summary": "a hook makes one gradient infinite"},
    "nan_hook_on_hidden": {
        "role": "reported",
        "summary": "a hook on a hidden state makes the gradients before it NaN",
    },
    "nan_output": {"role": "reported", "summary": "a layer gives NaN"},
    "raised_at_nan": {"role": "reported", "summary": "a layer gives NaN, and a check raises"},
    "half_update": {
        "role": "reported",
        "summary": "fp16 weights, AdamW: eps and second moment are both 0",
    },
    "large_update": {"role": "reported", "summary": "an update that overflows"},
    "zeroed_hook": {"role": "reported", "summary": "a hook masks one gradient"},
    "rounded_hidden": {"role": "reported", "summary": "a hidden state is rounded"},
    "clipped": {"role": "reported", "summary": "gradients are clipped to a norm of 0"},
    "zero_loss": {"role": "reported", "summary": "the loss is multiplied by 0"},
}


def train(variant: str, device: str, steps: int) -> None:
    """Take `steps` steps of the variant's loop.

    The line to blame is marked with `culprit` and its name.
    """
    torch.manual_seed(0)
    loop: Iterator[None] = globals()[variant](Model().to(device), batch(device))
    for _ in zip(range(steps), loop, strict=False):
        pass


def nan_hook(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    weight = model.blocks[1].linear.weight
    weight.register_hook(lambda gradient: gradient * math.nan)  # culprit: nan_hook
    return descend_on(model, inputs)


def infinite_hook(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    weight = model.blocks[1].linear.weight
    weight.register_hook(lambda gradient: gradient / 0)  # culprit: infinite_hook
    return descend_on(model, inputs)


def nan_hook_on_hidden(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def run(block: Any, hidden: torch.Tensor) -> Any:
        hidden = block(hidden)
        hidden.register_hook(lambda gradient: gradient * math.nan)  # culprit: nan_hook_on_hidden
        return hidden

    model.run_first = run
    return descend_on(model, inputs)


class BreakingBlock(Block):
    """Takes the root of what may be negative."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """NaN."""
        return super().forward(hidden).sub(2).sqrt()  # culprit: nan_output, raised_at_nan


def nan_output(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.blocks[0] = BreakingBlock()

    def run(block: Any, hidden: torch.Tensor) -> Any:
        return block(hidden)

    model.run_first = run
    return descend_on(model, inputs)


def raised_at_nan(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.blocks[0] = BreakingBlock()

    def run(block: Any, hidden: torch.Tensor) -> Any:
        hidden = block(hidden)
        if hidden.isnan().any():
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        return hidden

    model.run_first = run
    return descend_on(model, inputs)


class Scale(nn.Module):  # type: ignore[misc]  # torch is not installed where this is checked
    """Half-precision weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, dtype=torch.float16))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Scaled."""
        return inputs * self.weight.float()


def half_update(_model: Any, inputs: torch.Tensor) -> Iterator[None]:
    scale = Scale()
    optimizer = torch.optim.AdamW(scale.parameters(), lr=0.1, foreach=False)  # culprit: half_update
    return descend(optimizer, lambda: scale(inputs).sum() * 1e-6)


def large_update(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=3e38)  # culprit: large_update
    return descend(optimizer, lambda: error(model(inputs)) * 100)


def zeroed_hook(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    weight = model.blocks[1].linear.weight
    weight.register_hook(lambda gradient: gradient * 0)  # culprit: zeroed_hook
    return descend_on(model, inputs)


def rounded_hidden(model: Any, inputs: torch.Tensor) -> Iterator[None]:

    def run_first(block: Any, hidden: Any) -> Any:
        return torch.round(block(hidden) * 8) / 8  # culprit: rounded_hidden

    model.run_first = run_first
    return descend_on(model, inputs)


def clipped(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        error(model(inputs)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.0)  # culprit: clipped
        optimizer.step()
        yield


def zero_loss(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)) * 0)
