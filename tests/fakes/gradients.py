"""Training scripts whose gradient goes wrong, or that fail earlier: one variant for each way."""

# ruff: noqa: ANN401, D103  (torch has no types here; a variant's summary is in VARIANTS)

from __future__ import annotations

import copy
import importlib
import sys
import unittest
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tests.fakes.loop import batch, call_back, descend, error, healthy, learn, network

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = ("torch",)

VARIANTS = {
    "closure_without_gradients": {
        "role": "reported",
        "summary": "step is decorated with no_grad and calls a closure",
    },
    "frozen": {"role": "misuse", "summary": "everything is frozen"},
    "detached_loss": {"role": "reported", "summary": "the loss is detached"},
    "detached_encoder": {"role": "reported", "summary": "the encoder runs under no_grad"},
    "detached_behind_a_leaf": {
        "role": "reported",
        "summary": "the output is detached, a leaf keeps backward quiet",
    },
    "inference_encoder": {"role": "reported", "summary": "the encoder runs under inference_mode"},
    "unused": {"role": "reported", "summary": "one of two layers takes no part"},
    "zero": {"role": "reported", "summary": "the loss is multiplied by 0"},
    "nonfinite": {
        "role": "reported",
        "summary": "where(x > 0, sqrt(x), 0) at x = 0: a finite loss, a NaN gradient",
    },
    "nonfinite_loss": {"role": "reported", "summary": "the loss is NaN"},
    "nonfinite_at_last": {
        "role": "reported",
        "summary": "the loss is infinite at the very last step only",
    },
    "manual_nan": {
        "role": "reported",
        "summary": "torch.autograd.grad, and a step that makes the weights NaN",
    },
    "rate_zero": {"role": "misuse", "summary": "learning rate 0"},
    "rate_zero_half": {"role": "reported", "summary": "learning rate 0 for the first layer"},
    "other_parameters": {
        "role": "misuse",
        "summary": "the optimizer holds the parameters of a copy",
    },
    "held_half_apart": {
        "role": "reported",
        "summary": "the same for two parts of a module without a forward",
    },
    "held_half": {"role": "reported", "summary": "the optimizer holds the last layer only"},
    "never_steps": {"role": "reported", "summary": "backward passes, no step"},
    "raises_before": {"role": "reported", "summary": "an exception before there is an optimizer"},
    "raises_in_step": {"role": "reported", "summary": "an exception in the third step"},
    "imports_late": {
        "role": "reported",
        "summary": "a missing module, needed only when training begins",
    },
    "unsupported": {"role": "reported", "summary": "says by SkipTest that it cannot be done here"},
}


def train(variant: str, device: str, steps: int) -> None:
    """Take `steps` steps of the variant's loop, then print every learned number exactly."""
    learn(globals()[variant], device, steps)


def closure_without_gradients(
    device: str, learned: list[torch.Tensor], _steps: int
) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return call_back(model, inputs, DecoratedSGD(model.parameters(), lr=0.1))


class DecoratedSGD(torch.optim.SGD):  # type: ignore[misc]  # the checker has no torch
    """What transformers.optimization.Adafactor did in 4.30."""

    @torch.no_grad()  # type: ignore[untyped-decorator]  # the same
    def step(self, closure: Any = None) -> Any:
        """Call the closure with gradients switched off."""
        loss = closure()
        super().step()
        return loss


def frozen(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device).requires_grad_(requires_grad=False), batch(device)
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


def detached_loss(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(
        torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)).detach()
    )


def detached_encoder(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)

    def loss() -> torch.Tensor:
        with torch.no_grad():
            hidden = model[0](inputs)
        return error(model[2](torch.tanh(hidden)))

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def detached_behind_a_leaf(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)

    def loss() -> torch.Tensor:
        return error(model(inputs).detach()) + torch.zeros((), device=device, requires_grad=True)

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def inference_encoder(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)

    def loss() -> torch.Tensor:
        with torch.inference_mode():
            hidden = model[0](inputs)
        return error(model[2](torch.tanh(hidden.clone())))

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def unused(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model = nn.ModuleDict({"used": nn.Linear(4, 1), "unused": nn.Linear(4, 1)}).to(device)
    learned.extend(model.parameters())
    inputs = batch(device)
    return descend(
        torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model["used"](inputs))
    )


def zero(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)) * 0)


def nonfinite(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model = nn.ParameterList([nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))]).to(
        device
    )
    learned.extend(model.parameters())

    def loss() -> torch.Tensor:
        root, weight = model[0], model[1]
        return error(weight) + torch.where(root > 0, root.sqrt(), torch.zeros_like(root)).sum()

    return descend(torch.optim.SGD(model.parameters(), lr=0.1), loss)


def nonfinite_loss(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(
        torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)) * float("nan")
    )


def nonfinite_at_last(device: str, learned: list[torch.Tensor], steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    factors = iter([1.0] * (steps - 1) + [float("inf")])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return descend(optimizer, lambda: error(model(inputs)) * next(factors))


def manual_nan(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=float("inf"))
    while True:
        gradients = torch.autograd.grad(error(model(inputs)), list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        yield


def rate_zero(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(torch.optim.SGD(model.parameters(), lr=0.0), lambda: error(model(inputs)))


def rate_zero_half(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    groups = [
        {"params": list(model[0].parameters()), "lr": 0.0},
        {"params": list(model[2].parameters())},
    ]
    return descend(torch.optim.SGD(groups, lr=0.1), lambda: error(model(inputs)))


def other_parameters(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    optimizer = torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1)
    return descend(optimizer, lambda: error(model(inputs)))


def held_half_apart(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    parts = nn.ModuleDict({"encoder": nn.Linear(4, 4), "head": nn.Linear(4, 1)}).to(device)
    learned.extend(parts.parameters())
    inputs = batch(device)
    optimizer = torch.optim.SGD(parts["head"].parameters(), lr=0.1)
    return descend(optimizer, lambda: error(parts["head"](parts["encoder"](inputs))))


def held_half(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(torch.optim.SGD(model[2].parameters(), lr=0.1), lambda: error(model(inputs)))


def never_steps(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        error(model(inputs)).backward()
        yield


def raises_before(device: str, _learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    raise RuntimeError(f"this {device} is not ready")


def raises_in_step(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    for number, _ in enumerate(healthy(device, learned, _steps), start=1):
        if number == 2:
            raise RuntimeError("the third step fails")
        yield


def imports_late(_device: str, _learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    importlib.import_module("a_module_that_nobody_has")
    yield


def unsupported(_device: str, _learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    raise unittest.SkipTest("this release cannot do it")


if __name__ == "__main__":
    train(sys.argv[1], "cpu", int(sys.argv[2]))
