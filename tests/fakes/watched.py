"""Scripts that are hard to watch.

They have threads, caught exceptions, compilers, large parameters, or an observer of their own.
What they print is the same with and without an observer.
"""

# torch has no types here; a variant's summary is in VARIANTS; a script prints
# ruff: noqa: ANN401, D103, T201

from __future__ import annotations

import contextlib
import logging
import threading
import unittest
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers
from torch.utils.checkpoint import checkpoint

from tests.fakes.loop import Block, Model, batch, descend, descend_on, error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEEDS = ("torch",)

VARIANTS = {
    "whole": {"role": "control", "summary": "nothing special"},
    "reentrant": {"role": "control", "summary": "all layers in one reentrant checkpoint"},
    "non_reentrant": {
        "role": "control",
        "summary": "the other kind, which counts what a pass saves",
    },
    "penalised": {
        "role": "control",
        "summary": "a gradient of gradients, detached and cloned parts, a running mean",
    },
    "scripted": {
        "role": "control",
        "summary": "torch.jit.script of a function that makes a tensor",
    },
    "compiled_eager": {
        "role": "control",
        "summary": "torch.compile, backend eager, no_grad and an item inside",
    },
    "compiled_aot": {"role": "control", "summary": "the same, backend aot_eager"},
    "thread": {"role": "control", "summary": "a thread stays under no_grad and runs the model"},
    "thread_and_fault": {
        "role": "reported",
        "summary": "the same, and one layer is run under no_grad",
    },
    "generators": {
        "role": "control",
        "summary": "a generator decorated with no_grad is left half-way",
    },
    "exits_twisted": {
        "role": "control",
        "summary": "two no_grad that are not left in the order in which they came",
    },
    "swallowed_inside": {
        "role": "reported",
        "summary": "an exception inside a layer is caught, the layer detaches",
    },
    "swallowed_under_no_grad": {
        "role": "reported",
        "summary": "one under no_grad is caught, then a layer is detached",
    },
    "traces": {
        "role": "control",
        "summary": "compares torch before, between and after the steps of an observer",
    },
}

AUDITED = 2
CLASSES = {
    "Tensor",
    "no_grad",
    "inference_mode",
    "enable_grad",
    "set_grad_enabled",
    "Optimizer",
    "Logger",
}


def train(variant: str, device: str, steps: int) -> None:
    """Take `steps` steps of the variant's loop. Print the last loss and the first parameters."""
    torch.manual_seed(0)
    model = Model().to(device)
    saved: list[torch.Size] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        for _ in zip(range(steps), globals()[variant](model, batch(device)), strict=False):
            print(float(model.head.weight.detach().sum()).hex())
    print(len(saved), float(torch.rand(())).hex())


def whole(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    return descend_on(model, inputs)


def reentrant(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.run_first = lambda block, hidden: checkpoint(block, hidden, use_reentrant=True)
    return descend_on(model, inputs)


def non_reentrant(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.run_first = lambda block, hidden: checkpoint(block, hidden, use_reentrant=False)
    return descend_on(model, inputs)


def penalised(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    mean = torch.zeros(())

    def loss() -> torch.Tensor:
        given = inputs.clone().requires_grad_()
        output = model(given)
        slope = torch.autograd.grad(output.sum(), given, create_graph=True)[0]
        mean.mul_(0.9).add_(0.1 * output.detach().mean())
        return (
            error(output)
            + slope.square().mean()
            + (output - mean).mean() * float(output.detach().norm())
        )

    return descend(torch.optim.AdamW(model.parameters(), lr=0.01), loss)


def add_one(hidden: torch.Tensor) -> torch.Tensor:
    """Compiled by torch.jit, which wants to know `torch.tensor` when it sees it."""
    with torch.no_grad():
        flat = torch.round(torch.zeros_like(hidden).detach())
    return hidden + torch.tensor([1.0]) + flat


def scripted(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.run_first = lambda block, hidden: torch.jit.script(add_one)(block(hidden))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        yield from descend_on(model, inputs)


def compiled(model: Any, inputs: torch.Tensor, backend: str) -> Iterator[None]:
    """With a break of the graph in it."""

    def run(block: Any, hidden: torch.Tensor) -> Any:
        hidden = block(hidden)
        with torch.no_grad():
            scale = hidden.abs().max()
        return hidden * (1.0 / (1.0 + scale.item())) + torch.tensor(0.5)

    model.run_first = run
    try:
        fast = torch.compile(model, backend=backend)
    except RuntimeError as reason:  # torch 2.0 on Python 3.11
        raise unittest.SkipTest(str(reason)) from reason
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(fast(inputs)))


def compiled_eager(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    return compiled(model, inputs, "eager")


def compiled_aot(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    return compiled(model, inputs, "aot_eager")


@contextlib.contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """A thread is under no_grad and has done some work while the body runs."""
    ready, done = threading.Event(), threading.Event()

    def run() -> None:
        with torch.no_grad():
            work()
            ready.set()
            done.wait()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


def thread(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        with beside(lambda: model(inputs)):
            error(model(inputs)).backward()
        optimizer.step()
        yield


def thread_and_fault(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def run(block: Any, hidden: torch.Tensor) -> Any:
        with beside(lambda: block(hidden)), torch.no_grad():  # culprit: thread_and_fault
            return block(hidden)

    model.run_first = run
    return descend_on(model, inputs)


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not installed where this is checked
def generate(model: Any, inputs: torch.Tensor) -> Iterator[Any]:
    """One output after the other."""
    while True:
        yield model(inputs)


def generators(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    generated = generate(model, inputs)

    def loss() -> torch.Tensor:
        return error(model(inputs) - next(generated))

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def exits_twisted(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    for _ in descend_on(model, inputs):
        first, second = torch.no_grad(), torch.enable_grad()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)
        torch.set_grad_enabled(True)
        yield


class FailingBlock(Block):
    """A path that only some machines have."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Nothing."""
        raise NotImplementedError(str(hidden.shape))


class TryingBlock(Block):
    """Tries the fast path first."""

    def __init__(self) -> None:
        super().__init__()
        self.fast = FailingBlock()

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The slow one."""
        with contextlib.suppress(NotImplementedError):
            return self.fast(hidden)
        return super().forward(hidden).detach()  # culprit: swallowed_inside


def swallowed_inside(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.blocks[1] = TryingBlock()
    return descend_on(model, inputs)


def swallowed_under_no_grad(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    failing = FailingBlock()

    def loss() -> torch.Tensor:
        with contextlib.suppress(NotImplementedError), torch.no_grad():
            failing(inputs)
        return error(model(inputs))

    def run(block: Any, hidden: torch.Tensor) -> Any:
        with torch.no_grad():  # culprit: swallowed_under_no_grad
            return block(hidden)

    model.run_first = run
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def traces(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    # The package under this name runs in the tested environment.
    from gradmatrix_observe.observer import (  # type: ignore[import-not-found]  # noqa: PLC0415
        Observer,
    )

    next(descend_on(model, inputs))  # the first optimizer makes torch import much, which changes it
    before = snapshot()
    with Observer(audit=AUDITED, warmup=1, device="cpu"):
        for number, _ in enumerate(descend_on(model, inputs), start=1):
            if number in {1, AUDITED}:
                print("after step", number, *different(before, snapshot()))
            if number == AUDITED + 2:
                break
    print("at last", *different(before, snapshot()))
    yield


def snapshot() -> dict[str, Any]:
    """What an observer may replace, by name."""
    owners = (
        torch, torch.Tensor, torch.no_grad, torch.inference_mode, torch.enable_grad,
        torch.set_grad_enabled, torch.autograd, torch.nn.utils, torch.nn.utils.clip_grad,
        torch.optim.Optimizer, warnings, logging.Logger,
    )  # fmt: skip
    found = {
        f"{owner.__name__}.{name}": value for owner in owners for name, value in vars(owner).items()
    }
    hooks = [
        (f"{place.__name__}.{name}", value)
        for place in (modules, optimizers)
        for name, value in vars(place).items()
        if name.startswith("_global_")
    ]
    return {**found, **{name: tuple(value) for name, value in hooks if hasattr(value, "values")}}


def different(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names that are not what they were; a module may get more of them by importing."""
    added = [name for name in after if name not in before and name.split(".")[-2] in CLASSES]
    changed = [name for name, value in before.items() if not is_same(value, after.get(name))]
    return sorted([*added, *changed])


def is_same(before: Any, after: Any) -> bool:
    """Whether this is the same thing; what the observer replaces is equal to what it was."""
    return before is after or (isinstance(before, tuple) and before == after)
