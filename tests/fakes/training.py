"""Training scripts that are correct, however unusual: one variant for each way.

`python -m tests.fakes.training VARIANT STEPS` runs without this project where torch is installed.
"""

# ruff: noqa: ANN401, D103  (torch has no types here; a variant's summary is in VARIANTS)

from __future__ import annotations

import logging
import sys
import unittest
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tests.fakes.loop import batch, call_back, descend, error, healthy, learn, network

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = ("torch",)

VARIANTS = {
    "healthy": {"role": "control", "summary": "SGD on two layers"},
    "known_numbers": {
        "role": "control",
        "summary": "one weight, 1, 1/2, 1/4 …: every number is exact in binary",
    },
    "randomness": {"role": "control", "summary": "dropout and AdamW"},
    "accumulated": {"role": "control", "summary": "two backward passes per step"},
    "two_optimizers": {"role": "control", "summary": "a generator and a discriminator in turn"},
    "closure": {"role": "control", "summary": "an optimizer that calls a closure, with gradients"},
    "autocast": {"role": "control", "summary": "bfloat16 autocast, backward inside"},
    "adapter": {
        "role": "control",
        "summary": "LoRA: A has a zero gradient at step 1, B starts at zero",
    },
    "scaler_skips": {
        "role": "control",
        "summary": "the first step is skipped, as GradScaler does at an overflow",
    },
    "frozen_half": {"role": "control", "summary": "the first layer is frozen on purpose"},
    "shared": {"role": "control", "summary": "one parameter in two places"},
    "functional": {"role": "control", "summary": "parameters without any module"},
    "frozen_at_the_end": {
        "role": "control",
        "summary": "frozen after the last step, to be evaluated",
    },
    "unfrozen_late": {
        "role": "control",
        "summary": "the first layer is frozen for the first six steps, and held",
    },
    "empty_parameter": {
        "role": "control",
        "summary": "a parameter without elements beside the others",
    },
    "complex_parameter": {"role": "control", "summary": "a complex weight"},
    "clears_in_step": {
        "role": "control",
        "summary": "the optimizer's own step ends with zero_grad",
    },
    "optimizer_thrown_away": {
        "role": "control",
        "summary": "an optimizer over everything that never steps; a head's",
    },
    "optimizer_made_anew": {"role": "control", "summary": "a new optimizer every three steps"},
    "roots_of_a_generator": {
        "role": "control",
        "summary": "backward is given two losses by a generator",
    },
    "compiled": {"role": "control", "summary": "the model goes through torch.compile"},
    "warns": {"role": "control", "summary": "warns three times, logs once"},
    "allocates": {"role": "control", "summary": "takes and frees 256 MiB after each step"},
}

MIB = 2**20
UNFROZEN_AFTER = 6


def train(variant: str, device: str, steps: int) -> None:
    """Take `steps` steps of the variant's loop, then print every learned number exactly."""
    learn(globals()[variant], device, steps)


def known_numbers(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model = nn.Linear(1, 1, bias=False).to(device)
    nn.init.ones_(model.weight)
    learned.append(model.weight)
    one = torch.ones(1, 1, device=device)
    return descend(torch.optim.SGD(model.parameters(), lr=0.25), lambda: model(one).square().sum())


def randomness(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).to(device)
    learned.extend(model.parameters())
    inputs = batch(device)
    return descend(torch.optim.AdamW(model.parameters(), lr=0.01), lambda: error(model(inputs)))


def accumulated(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        for half in inputs.chunk(2):
            error(model(half)).backward()
        optimizer.step()
        yield


def two_optimizers(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    generator, discriminator = network(learned, device), nn.Linear(1, 1).to(device)
    learned.extend(discriminator.parameters())
    inputs = batch(device)
    first = torch.optim.Adam(generator.parameters(), lr=0.01)
    second = torch.optim.Adam(discriminator.parameters(), lr=0.01)
    while True:
        first.zero_grad()
        error(discriminator(generator(inputs))).backward()
        first.step()
        second.zero_grad()
        error(-discriminator(generator(inputs).detach())).backward()
        second.step()
        yield


def closure(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return call_back(model, inputs, optimizer)


def autocast(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            error(model(inputs)).backward()
        optimizer.step()
        yield


def adapter(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    down, up = nn.Linear(4, 2, bias=False).to(device), nn.Linear(2, 1, bias=False).to(device)
    nn.init.zeros_(up.weight)
    model = nn.Sequential(down, up)
    learned.extend(model.parameters())
    inputs = batch(device)
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


def scaler_skips(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scale = float("inf")
    while True:
        optimizer.zero_grad()
        (error(model(inputs)) * min(scale, 1e38)).backward()
        for tensor in learned:
            assert tensor.grad is not None
            tensor.grad.div_(min(scale, 1e38))
        if scale == float("inf"):  # too much: step is not called, the next scale is smaller
            scale = 2.0**16
            continue
        optimizer.step()
        yield


def frozen_half(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    model[0].requires_grad_(requires_grad=False)
    return descend(torch.optim.SGD(model[2].parameters(), lr=0.1), lambda: error(model(inputs)))


def shared(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    first, last = nn.Linear(4, 4).to(device), nn.Linear(4, 4).to(device)
    last.weight = first.weight
    model = nn.Sequential(first, nn.Tanh(), last)
    learned.extend(model.parameters())
    inputs = batch(device)
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


def functional(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    weight = torch.randn(4, 1, device=device, requires_grad=True)
    learned.append(weight)
    inputs = batch(device)
    return descend(torch.optim.SGD([weight], lr=0.1), lambda: error(inputs @ weight))


def frozen_at_the_end(device: str, learned: list[torch.Tensor], steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    loop = descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))
    for number, _ in enumerate(loop, start=1):
        if number == steps:
            model.requires_grad_(requires_grad=False)
        yield


def unfrozen_late(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    model[0].requires_grad_(requires_grad=False)
    loop = descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))
    for number, _ in enumerate(loop, start=1):
        model[0].requires_grad_(number >= UNFROZEN_AFTER)
        yield


def empty_parameter(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    model.register_parameter("nothing", nn.Parameter(torch.empty(0, device=device)))
    loss = lambda: error(model(inputs)) + model.nothing.sum()  # noqa: E731
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def complex_parameter(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    weight = nn.Parameter(torch.ones(3, dtype=torch.complex64, device=device))
    learned.append(torch.view_as_real(weight.detach()))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    while True:
        optimizer.zero_grad()
        (weight * 1j + 2).abs().square().sum().backward()
        optimizer.step()
        yield


class ClearingSGD(torch.optim.SGD):  # type: ignore[misc]  # the same
    """An optimizer that leaves no gradient behind."""

    def step(self, closure: Any = None) -> Any:
        """Step, then forget the gradients."""
        loss = super().step(closure)
        self.zero_grad(set_to_none=True)
        return loss


def clears_in_step(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(ClearingSGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


def optimizer_thrown_away(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    model[0].requires_grad_(requires_grad=False)
    torch.optim.SGD(model.parameters(), lr=0.1)
    return descend(torch.optim.SGD(model[-1].parameters(), lr=0.1), lambda: error(model(inputs)))


def optimizer_made_anew(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    while True:
        loop = descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))
        for _ in zip(range(3), loop, strict=False):
            yield


def roots_of_a_generator(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        torch.autograd.backward(error(model(half)) for half in inputs.chunk(2))
        optimizer.step()
        yield


def compiled(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    try:
        fast = torch.compile(model, backend="eager", fullgraph=True)
    except RuntimeError as reason:  # torch 2.0 on Python 3.11
        raise unittest.SkipTest(str(reason)) from reason
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(fast(inputs)))


def warns(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    logging.getLogger("fake.library").warning("%d parameters are frozen", 7)
    logging.getLogger("fake.library").info("not worth a record")
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("None of the inputs have requires_grad=True.", UserWarning, stacklevel=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("hidden by the script", UserWarning, stacklevel=1)
    return healthy(device, learned, _steps)


def allocates(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    for _ in healthy(device, learned, _steps):
        del [torch.ones(64 * MIB, device=device)][0]
        yield


if __name__ == "__main__":
    train(sys.argv[1], "cpu", int(sys.argv[2]))
