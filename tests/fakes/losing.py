"""A gradient that is lost on its way through a model, in every way that a script can lose it."""

# ruff: noqa: ANN401, D103  (torch has no types here; a variant's summary is in VARIANTS)

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tests.fakes.loop import Block, Model, batch, call_back, descend, descend_on, error

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = ("torch",)

VARIANTS = {
    "decorated_step": {
        "role": "reported",
        "summary": "the optimizer's step is decorated with no_grad and calls a closure",
    },
    "no_grad_block": {"role": "reported", "summary": "one layer is run under no_grad"},
    "no_grad_forward": {"role": "reported", "summary": "the whole model is run under no_grad"},
    "no_grad_inside": {
        "role": "reported",
        "summary": "the forward of one layer has a no_grad in it",
    },
    "no_grad_decorator": {
        "role": "reported",
        "summary": "the forward of one layer is decorated with no_grad",
    },
    "inference_mode_block": {"role": "reported", "summary": "one layer is run in inference mode"},
    "inference_mode_forward": {
        "role": "reported",
        "summary": "the whole model is run in inference mode",
    },
    "left_off": {
        "role": "reported",
        "summary": "set_grad_enabled(False) in one layer, and never on again",
    },
    "off_from_the_start": {
        "role": "reported",
        "summary": "set_grad_enabled(False) before training",
    },
    "no_grad_loss": {
        "role": "reported",
        "summary": "the loss is computed under no_grad, the model is not",
    },
    "detached": {"role": "reported", "summary": "detach of a hidden state"},
    "data": {"role": "reported", "summary": ".data of a hidden state"},
    "numpy": {"role": "reported", "summary": "a hidden state goes through NumPy"},
    "listed": {"role": "reported", "summary": "a hidden state goes through a list"},
    "made_anew": {"role": "reported", "summary": "a hidden state is copied by torch.tensor"},
    "zeros": {"role": "reported", "summary": "zeros in the shape of a hidden state"},
    "detached_inside": {"role": "reported", "summary": "a layer detaches what it gives"},
    "forgotten": {"role": "reported", "summary": "a layer is run, and what it gives is not used"},
    "item": {"role": "reported", "summary": "a part of the loss is taken by item"},
    "rewrapped": {"role": "reported", "summary": "the loss is made anew of its value"},
    "required": {
        "role": "reported",
        "summary": "the loss is detached and made to require a gradient",
    },
    "detached_loss": {"role": "reported", "summary": "the loss is detached"},
    "beside_generation": {
        "role": "reported",
        "summary": "a layer is detached, beside legitimate generation and a reference model",
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


class DecoratedSGD(torch.optim.SGD):  # type: ignore[misc]  # the checker has no torch
    """What transformers.optimization.Adafactor did in 4.30."""

    @torch.no_grad()  # type: ignore[untyped-decorator]  # culprit: decorated_step
    def step(self, closure: Any = None) -> Any:
        """Call the closure with gradients switched off."""
        loss = closure()
        super().step()
        return loss


def decorated_step(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    return call_back(model, inputs, DecoratedSGD(model.parameters(), lr=0.1))


def no_grad_block(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def run(block: Any, hidden: torch.Tensor) -> Any:
        with torch.no_grad():  # culprit: no_grad_block
            return block(hidden)

    model.run_first = run
    return descend_on(model, inputs)


def no_grad_forward(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def loss() -> torch.Tensor:
        with torch.no_grad():  # culprit: no_grad_forward
            output = model(inputs)
        return error(output)

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


class QuietBlock(Block):
    """Looks at its input, it says, and forgets where it ends."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The same as ever, without a graph."""
        with torch.no_grad():  # culprit: no_grad_inside
            return super().forward(hidden)


def no_grad_inside(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.blocks[1] = QuietBlock()
    return descend_on(model, inputs)


class DecoratedBlock(Block):
    """Was written to be evaluated."""

    @torch.no_grad()  # type: ignore[untyped-decorator]  # culprit: no_grad_decorator
    def forward(self, hidden: torch.Tensor) -> Any:
        """The same as ever, without a graph."""
        return super().forward(hidden)


def no_grad_decorator(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.blocks[1] = DecoratedBlock()
    return descend_on(model, inputs)


def inference_mode_block(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def run(block: Any, hidden: torch.Tensor) -> Any:
        with torch.inference_mode():  # culprit: inference_mode_block
            hidden = block(hidden)
        return hidden.clone()

    model.run_first = run
    return descend_on(model, inputs)


def inference_mode_forward(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def loss() -> torch.Tensor:
        with torch.inference_mode():  # culprit: inference_mode_forward
            output = model(inputs)
        return error(output.clone())

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def left_off(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def run(block: Any, hidden: torch.Tensor) -> Any:
        torch.set_grad_enabled(False)  # culprit: left_off
        return block(hidden)

    model.run_first = run
    return descend_on(model, inputs)


def off_from_the_start(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    torch.set_grad_enabled(False)  # culprit: off_from_the_start
    return descend_on(model, inputs)


def no_grad_loss(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        output = model(inputs)
        with torch.no_grad():  # culprit: no_grad_loss
            error(output).backward()
        optimizer.step()
        yield


def detached(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.run_first = lambda block, hidden: block(hidden).detach()  # culprit: detached
    return descend_on(model, inputs)


def data(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.run_first = lambda block, hidden: block(hidden).data  # culprit: data
    return descend_on(model, inputs)


def numpy(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def run(block: Any, hidden: torch.Tensor) -> Any:
        values = block(hidden).detach().numpy()  # culprit: numpy
        return torch.from_numpy(values * 1.0)

    model.run_first = run
    return descend_on(model, inputs)


def listed(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def run(block: Any, hidden: torch.Tensor) -> Any:
        values = block(hidden).tolist()  # culprit: listed
        return torch.tensor(values)

    model.run_first = run
    return descend_on(model, inputs)


def made_anew(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def run(block: Any, hidden: torch.Tensor) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.tensor(block(hidden))  # culprit: made_anew

    model.run_first = run
    return descend_on(model, inputs)


def zeros(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.run_first = lambda block, hidden: torch.zeros_like(block(hidden))  # culprit: zeros
    return descend_on(model, inputs)


class DetachingBlock(Block):
    """Keeps what it gives, to be looked at, and gives what it keeps."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The same as ever, without a graph."""
        self.kept = super().forward(hidden).detach()  # culprit: detached_inside
        return self.kept


def detached_inside(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.blocks[1] = DetachingBlock()
    return descend_on(model, inputs)


def forgotten(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def run(block: Any, hidden: torch.Tensor) -> torch.Tensor:
        block(hidden)
        return hidden

    model.run_first = run
    return descend_on(model, inputs)


def item(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    model.auxiliary = nn.Linear(8, 1)

    def loss() -> torch.Tensor:
        extra = error(model.auxiliary(model.embed(inputs)))
        return error(model(inputs)) + extra.item()  # culprit: item

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def rewrapped(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def loss() -> torch.Tensor:
        value = error(model(inputs)).item()
        return torch.tensor(value, requires_grad=True)  # culprit: rewrapped

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def required(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def loss() -> Any:
        return error(model(inputs)).detach().requires_grad_()  # culprit: required

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def detached_loss(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    def loss() -> Any:
        return error(model(inputs)).detach()  # culprit: detached_loss

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def beside_generation(model: Any, inputs: torch.Tensor) -> Iterator[None]:
    reference = copy.deepcopy(model)
    model.run_first = lambda block, hidden: block(hidden).detach()  # culprit: beside_generation

    def loss() -> torch.Tensor:
        with torch.no_grad():
            generated = model(inputs)
            wanted = reference(inputs)
        return error(model(inputs) - wanted + generated)

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)
