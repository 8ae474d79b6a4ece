"""Gradients that do not move what they should: dropped, frozen, in no optimizer, rounded away."""

# ruff: noqa: ANN401, D103  (torch has no types here; a variant's summary is in VARIANTS)

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tests.fakes.loop import Model, batch, descend, descend_on, error

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = ("torch",)

VARIANTS = {
    "cleared": {"role": "reported", "summary": "zero_grad between backward and step"},
    "dropped": {"role": "reported", "summary": "p.grad = None for one layer"},
    "all_frozen": {"role": "reported", "summary": "everything is frozen by requires_grad_(False)"},
    "all_frozen_by_hand": {"role": "reported", "summary": "everything is frozen by assignment"},
    "of_a_copy": {"role": "reported", "summary": "the optimizer holds a copy's parameters"},
    "replaced": {
        "role": "reported",
        "summary": "a parameter is replaced after the optimizer was built",
    },
    "left_out": {"role": "reported", "summary": "a layer is left out of the optimizer"},
    "never_steps": {"role": "reported", "summary": "the optimizer never steps"},
    "one_never_steps": {"role": "reported", "summary": "the second of two optimizers never steps"},
    "idle_step": {"role": "reported", "summary": "a step that does nothing"},
    "rate_zero": {"role": "reported", "summary": "learning rate 0"},
    "rounded": {"role": "reported", "summary": "bfloat16 weights, steps too small for them"},
}


def train(variant: str, device: str, steps: int) -> None:
    """Take `steps` steps of the variant's loop.

    The line to blame is marked with `culprit` and its name.
    """
    torch.manual_seed(0)
    loop: Iterator[None] = globals()[variant](Model().to(device), batch(device))
    for _ in zip(range(steps), loop, strict=False):
        pass


def sgd(model: Any) -> torch.optim.Optimizer:
    """A correct optimizer."""
    return torch.optim.SGD(model.parameters(), lr=0.1)


def cleared(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    optimizer = sgd(model)
    while True:
        error(model(inputs)).backward()
        optimizer.zero_grad()  # culprit: cleared
        optimizer.step()
        yield


def dropped(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    optimizer = sgd(model)
    while True:
        error(model(inputs)).backward()
        for parameter in model.blocks[1].parameters():
            parameter.grad = None  # culprit: dropped
        optimizer.step()
        optimizer.zero_grad()
        yield


def all_frozen(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.requires_grad_(requires_grad=False)  # culprit: all_frozen
    return descend_on(model, inputs)


def all_frozen_by_hand(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    for parameter in model.parameters():
        parameter.requires_grad = False  # culprit: all_frozen_by_hand
    return descend_on(model, inputs)


def of_a_copy(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    duplicate = copy.deepcopy(model)
    optimizer = torch.optim.SGD(duplicate.parameters(), lr=0.1)  # culprit: of_a_copy
    while True:
        model.zero_grad()
        error(model(inputs)).backward()
        optimizer.step()
        yield


def replaced(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.head.weight = nn.Parameter(torch.randn(1, 8))  # culprit: replaced
    return descend(optimizer, lambda: error(model(inputs)))


def left_out(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    kept = [
        parameter
        for name, parameter in model.named_parameters()
        if not name.startswith("blocks.1.")
    ]
    optimizer = torch.optim.SGD(kept, lr=0.1)  # culprit: left_out
    return descend(optimizer, lambda: error(model(inputs)))


def never_steps(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    torch.optim.SGD(model.parameters(), lr=0.1)  # culprit: never_steps
    while True:
        error(model(inputs)).backward()
        yield


def one_never_steps(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    optimizer = torch.optim.SGD([*model.embed.parameters(), *model.blocks.parameters()], lr=0.1)
    torch.optim.SGD(model.head.parameters(), lr=0.1)  # culprit: one_never_steps
    return descend(optimizer, lambda: error(model(inputs)))


class IdleSGD(torch.optim.SGD):  # type: ignore[misc]  # the checker has no torch
    """An optimizer that never steps."""

    def step(self, closure: Any = None) -> Any:  # culprit: idle_step
        """Nothing."""


def idle_step(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    return descend(IdleSGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


def rate_zero(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)  # culprit: rate_zero
    return descend(optimizer, lambda: error(model(inputs)))


def rounded(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    nn.init.ones_(model.head.weight)
    model.to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)  # culprit: rounded
    return descend(optimizer, lambda: error(model(inputs.bfloat16())))
