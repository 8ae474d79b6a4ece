"""Layers that are run more than once: autocast's cache of weights, checkpointing, generation."""

# ruff: noqa: ANN401, D103  (torch has no types here; a variant's summary is in VARIANTS)

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.fakes.loop import Model, batch, descend, descend_on, error

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = ("torch",)

VARIANTS = {
    "poisoned_cache": {
        "role": "reported",
        "summary": "a look without gradients fills autocast's cache of weights (torch < 2.11)",
    },
    "poisoned_cache_mixed": {
        "role": "reported",
        "summary": "the same, and a parameter that autocast does not cast",
    },
    "poisoned_cache_inference": {"role": "reported", "summary": "the same by inference mode"},
    "reentrant_frozen_embeddings": {
        "role": "reported",
        "summary": "reentrant checkpointing over frozen embeddings",
    },
    "reentrant_detached_input": {
        "role": "reported",
        "summary": "reentrant checkpointing of what was detached before",
    },
    "detached_inside_reentrant": {
        "role": "reported",
        "summary": "a layer in a healthy reentrant checkpoint detaches what it gives",
    },
    "no_grad_inside_reentrant": {
        "role": "reported",
        "summary": "a layer in a healthy reentrant checkpoint is run under no_grad",
    },
    "reentrant": {"role": "reported", "summary": "reentrant checkpointing as it should be"},
    "non_reentrant": {"role": "reported", "summary": "the other kind"},
    "generation": {
        "role": "reported",
        "summary": "generation and a reference model under no_grad, all else as it should be",
    },
    "inference_evaluation": {
        "role": "reported",
        "summary": "an evaluation in inference mode after each step",
    },
}


def train(variant: str, device: str, steps: int) -> None:
    """Take `steps` steps of the variant's loop.

    The line to blame is marked with `culprit` and its name.
    """
    torch.manual_seed(0)
    loop: Iterator[None] = globals()[variant](Model().to(device), batch(device))
    for _ in zip(range(steps), loop, strict=False):
        pass


def under_autocast(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    """Look under `model.look()` and then train, in one autocast context."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
            model.look(inputs)
            loss = error(model(inputs))
        loss.backward()
        optimizer.step()
        yield


class LookingModel(Model):
    """Looks before it leaps."""

    def look(self, inputs: torch.Tensor) -> None:
        """A pass without gradients."""
        with torch.no_grad():  # culprit: poisoned_cache
            self(inputs)


def poisoned_cache(_model: Any, inputs: torch.Tensor) -> Iterator[None]:
    return under_autocast(LookingModel(), inputs)


class ScalingModel(LookingModel):
    """Has a parameter that autocast leaves alone."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Scaled."""
        return super().forward(inputs) * self.scale


def poisoned_cache_mixed(_model: Any, inputs: torch.Tensor) -> Iterator[None]:
    return under_autocast(ScalingModel(), inputs)


class InferringModel(Model):
    """The same in inference mode."""

    def look(self, inputs: torch.Tensor) -> None:
        """A pass without gradients."""
        with torch.inference_mode():  # culprit: poisoned_cache_inference
            self(inputs)


def poisoned_cache_inference(_model: Any, inputs: torch.Tensor) -> Iterator[None]:
    return under_autocast(InferringModel(), inputs)


def reentrant_frozen_embeddings(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.embed.requires_grad_(requires_grad=False)

    def run(block: Any, hidden: torch.Tensor) -> Any:
        return checkpoint(block, hidden, use_reentrant=True)  # culprit: reentrant_frozen_embeddings

    model.run_first = run
    return descend_on(model, inputs)


def reentrant_detached_input(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def run(block: Any, hidden: torch.Tensor) -> Any:
        hidden = hidden.detach()  # culprit: reentrant_detached_input
        return checkpoint(block, hidden, use_reentrant=True)

    model.run_first = run
    return descend_on(model, inputs)


def detached_inside_reentrant(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def detaching(hidden: torch.Tensor) -> Any:
        hidden = model.blocks[0](hidden)
        return model.blocks[1](hidden.detach())  # culprit: detached_inside_reentrant

    model.run_first = lambda _block, hidden: checkpoint(detaching, hidden, use_reentrant=True)
    return descend_on(model, inputs)


def no_grad_inside_reentrant(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def quiet(hidden: torch.Tensor) -> Any:
        with torch.no_grad():  # culprit: no_grad_inside_reentrant
            hidden = model.blocks[0](hidden)
        return model.blocks[1](hidden)

    model.run_first = lambda _block, hidden: checkpoint(quiet, hidden, use_reentrant=True)
    return descend_on(model, inputs)


def reentrant(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.run_first = lambda block, hidden: checkpoint(block, hidden, use_reentrant=True)
    return descend_on(model, inputs)


def non_reentrant(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.run_first = lambda block, hidden: checkpoint(block, hidden, use_reentrant=False)
    return descend_on(model, inputs)


def generation(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    reference = copy.deepcopy(model)

    def loss() -> torch.Tensor:
        with torch.no_grad():
            generated = model(inputs)
            wanted = reference(inputs)
        return error(model(inputs) - wanted + generated)

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def inference_evaluation(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    for _ in descend_on(model, inputs):
        with torch.inference_mode():
            error(model(inputs)).item()
        yield
