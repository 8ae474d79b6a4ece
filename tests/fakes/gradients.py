"""Training scripts in which the gradient goes wrong: one variant for each way, and healthy ones beside them.

Every variant is a function that yields after each of its optimizer steps; `train` counts them and prints what was
learned, bit for bit. `python gradients.py VARIANT` runs without this project.
"""

# ruff: noqa: ANN401, D103, T201  (torch has no types here; a variant's summary is in VARIANTS; a script prints)

from __future__ import annotations

import copy
import importlib
import logging
import sys
import unittest
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEEDS = ("torch",)

VARIANTS = {
    "healthy": {"role": "control", "summary": "SGD on two layers"},
    "known_numbers": {"role": "control", "summary": "one weight, 1, 1/2, 1/4 …: every number is exact in binary"},
    "randomness": {"role": "control", "summary": "dropout and AdamW"},
    "accumulated": {"role": "control", "summary": "two backward passes per step"},
    "two_optimizers": {"role": "control", "summary": "a generator and a discriminator in turn"},
    "closure": {"role": "control", "summary": "an optimizer that calls a closure, with gradients"},
    "closure_without_gradients": {"role": "reported", "summary": "step is decorated with no_grad and calls a closure"},
    "autocast": {"role": "control", "summary": "bfloat16 autocast, backward inside"},
    "adapter": {"role": "control", "summary": "LoRA: A has a zero gradient at step 1, B starts at zero"},
    "scaler_skips": {"role": "control", "summary": "the first step is skipped, as GradScaler does at an overflow"},
    "frozen_half": {"role": "control", "summary": "the first layer is frozen on purpose"},
    "shared": {"role": "control", "summary": "one parameter in two places"},
    "functional": {"role": "control", "summary": "parameters without any module"},
    "frozen_at_the_end": {"role": "control", "summary": "frozen after the last step, to be evaluated"},
    "unfrozen_late": {"role": "control", "summary": "the first layer is frozen for the first six steps, and held"},
    "empty_parameter": {"role": "control", "summary": "a parameter without elements beside the others"},
    "complex_parameter": {"role": "control", "summary": "a complex weight"},
    "clears_in_step": {"role": "control", "summary": "the optimizer's own step ends with zero_grad"},
    "optimizer_thrown_away": {"role": "control", "summary": "an optimizer over everything that never steps; a head's"},
    "optimizer_made_anew": {"role": "control", "summary": "a new optimizer every three steps"},
    "roots_of_a_generator": {"role": "control", "summary": "backward is given two losses by a generator"},
    "compiled": {"role": "control", "summary": "the model goes through torch.compile"},
    "manual_nan": {"role": "reported", "summary": "torch.autograd.grad, and a step that makes the weights NaN"},
    "frozen": {"role": "misuse", "summary": "everything is frozen"},
    "detached_loss": {"role": "reported", "summary": "the loss is detached"},
    "detached_encoder": {"role": "reported", "summary": "the encoder runs under no_grad"},
    "detached_behind_a_leaf": {"role": "reported", "summary": "the output is detached, a leaf keeps backward quiet"},
    "inference_encoder": {"role": "reported", "summary": "the encoder runs under inference_mode"},
    "unused": {"role": "reported", "summary": "one of two layers takes no part"},
    "zero": {"role": "reported", "summary": "the loss is multiplied by 0"},
    "nonfinite": {"role": "reported", "summary": "where(x > 0, sqrt(x), 0) at x = 0: a finite loss, a NaN gradient"},
    "nonfinite_loss": {"role": "reported", "summary": "the loss is NaN"},
    "nonfinite_at_last": {"role": "reported", "summary": "the loss is infinite at the very last step only"},
    "rate_zero": {"role": "misuse", "summary": "learning rate 0"},
    "rate_zero_half": {"role": "reported", "summary": "learning rate 0 for the first layer"},
    "other_parameters": {"role": "misuse", "summary": "the optimizer holds the parameters of a copy"},
    "held_half_apart": {"role": "reported", "summary": "the same for two parts of a module without a forward"},
    "held_half": {"role": "reported", "summary": "the optimizer holds the last layer only"},
    "never_steps": {"role": "reported", "summary": "backward passes, no step"},
    "raises_before": {"role": "reported", "summary": "an exception before there is an optimizer"},
    "raises_in_step": {"role": "reported", "summary": "an exception in the third step"},
    "imports_late": {"role": "reported", "summary": "a missing module, needed only when training begins"},
    "unsupported": {"role": "reported", "summary": "says by SkipTest that it cannot be done here"},
    "warns": {"role": "control", "summary": "warns three times, logs once"},
    "allocates": {"role": "control", "summary": "takes and frees 256 MiB after each step"},
}

MIB = 2**20
UNFROZEN_AFTER = 6


def train(variant: str, device: str, steps: int) -> None:
    """Take `steps` steps of the variant's loop, then print every learned number exactly."""
    torch.manual_seed(0)
    learned: list[torch.Tensor] = []
    loop: Callable[..., Iterator[None]] = globals()[variant]
    for _ in zip(range(steps), loop(device, learned, steps), strict=False):
        pass
    for tensor in learned:
        print([float(value).hex() for value in tensor.detach().flatten().tolist()])
    print(float(torch.rand(())).hex())  # whoever draws random numbers beside the script shows here


def network(learned: list[torch.Tensor], device: str) -> Any:
    """Two layers, whose parameters are `learned`."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    learned.extend(model.parameters())
    return model


def batch(device: str) -> torch.Tensor:
    """Sixteen inputs."""
    return torch.randn(16, 4, device=device)


def error(output: torch.Tensor) -> torch.Tensor:
    """A loss."""
    return (output - 1).square().mean()


def descend(model: Any, optimizer: Any, loss_of: Callable[[], torch.Tensor]) -> Iterator[None]:
    """The loop of every tutorial."""
    while True:
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
        yield


def healthy(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


def known_numbers(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model = nn.Linear(1, 1, bias=False).to(device)
    nn.init.ones_(model.weight)
    learned.append(model.weight)
    one = torch.ones(1, 1, device=device)
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.25), lambda: model(one).square().sum())


def randomness(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).to(device)
    learned.extend(model.parameters())
    inputs = batch(device)
    return descend(model, torch.optim.AdamW(model.parameters(), lr=0.01), lambda: error(model(inputs)))


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


def closure_without_gradients(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return call_back(model, inputs, DecoratedSGD(model.parameters(), lr=0.1))


class DecoratedSGD(torch.optim.SGD):  # type: ignore[misc]  # torch is not installed where this is checked
    """What transformers.optimization.Adafactor did in 4.30."""

    @torch.no_grad()  # type: ignore[untyped-decorator]  # the same
    def step(self, closure: Any = None) -> Any:
        """Call the closure with gradients switched off."""
        loss = closure()
        super().step()
        return loss


def call_back(model: Any, inputs: torch.Tensor, optimizer: Any) -> Iterator[None]:
    """Forward and backward inside of `optimizer.step`."""

    def calculate() -> torch.Tensor:
        optimizer.zero_grad()
        loss = error(model(inputs))
        loss.backward()
        return loss

    while True:
        optimizer.step(calculate)
        yield


def autocast(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            error(model(inputs)).backward()
        optimizer.step()
        yield


def frozen_at_the_end(device: str, learned: list[torch.Tensor], steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    loop = descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))
    for number, _ in enumerate(loop, start=1):
        if number == steps:
            model.requires_grad_(requires_grad=False)
        yield


def unfrozen_late(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    model[0].requires_grad_(requires_grad=False)
    loop = descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))
    for number, _ in enumerate(loop, start=1):
        model[0].requires_grad_(number >= UNFROZEN_AFTER)
        yield


def empty_parameter(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    model.register_parameter("nothing", nn.Parameter(torch.empty(0, device=device)))
    loss = lambda: error(model(inputs)) + model.nothing.sum()  # noqa: E731
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), loss)


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
    return descend(model, ClearingSGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


def optimizer_thrown_away(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    model[0].requires_grad_(requires_grad=False)
    torch.optim.SGD(model.parameters(), lr=0.1)
    return descend(model, torch.optim.SGD(model[-1].parameters(), lr=0.1), lambda: error(model(inputs)))


def optimizer_made_anew(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    while True:
        loop = descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))
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
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(fast(inputs)))


def manual_nan(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=float("inf"))
    while True:
        gradients = torch.autograd.grad(error(model(inputs)), list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        yield


def adapter(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    down, up = nn.Linear(4, 2, bias=False).to(device), nn.Linear(2, 1, bias=False).to(device)
    nn.init.zeros_(up.weight)
    model = nn.Sequential(down, up)
    learned.extend(model.parameters())
    inputs = batch(device)
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


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
    return descend(model, torch.optim.SGD(model[2].parameters(), lr=0.1), lambda: error(model(inputs)))


def shared(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    first, last = nn.Linear(4, 4).to(device), nn.Linear(4, 4).to(device)
    last.weight = first.weight
    model = nn.Sequential(first, nn.Tanh(), last)
    learned.extend(model.parameters())
    inputs = batch(device)
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


def functional(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    weight = torch.randn(4, 1, device=device, requires_grad=True)
    learned.append(weight)
    inputs = batch(device)
    return descend(None, torch.optim.SGD([weight], lr=0.1), lambda: error(inputs @ weight))


def frozen(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device).requires_grad_(requires_grad=False), batch(device)
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


def detached_loss(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)).detach())


def detached_encoder(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)

    def loss() -> torch.Tensor:
        with torch.no_grad():
            hidden = model[0](inputs)
        return error(model[2](torch.tanh(hidden)))

    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), loss)


def detached_behind_a_leaf(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)

    def loss() -> torch.Tensor:
        return error(model(inputs).detach()) + torch.zeros((), device=device, requires_grad=True)

    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), loss)


def inference_encoder(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)

    def loss() -> torch.Tensor:
        with torch.inference_mode():
            hidden = model[0](inputs)
        return error(model[2](torch.tanh(hidden.clone())))

    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), loss)


def unused(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model = nn.ModuleDict({"used": nn.Linear(4, 1), "unused": nn.Linear(4, 1)}).to(device)
    learned.extend(model.parameters())
    inputs = batch(device)
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model["used"](inputs)))


def zero(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)) * 0)


def nonfinite(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model = nn.ParameterList([nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))]).to(device)
    learned.extend(model.parameters())

    def loss() -> torch.Tensor:
        root, weight = model[0], model[1]
        return error(weight) + torch.where(root > 0, root.sqrt(), torch.zeros_like(root)).sum()

    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), loss)


def nonfinite_loss(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)) * float("nan"))


def nonfinite_at_last(device: str, learned: list[torch.Tensor], steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    factors = iter([1.0] * (steps - 1) + [float("inf")])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return descend(model, optimizer, lambda: error(model(inputs)) * next(factors))


def rate_zero(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(model, torch.optim.SGD(model.parameters(), lr=0.0), lambda: error(model(inputs)))


def rate_zero_half(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    groups = [{"params": list(model[0].parameters()), "lr": 0.0}, {"params": list(model[2].parameters())}]
    return descend(model, torch.optim.SGD(groups, lr=0.1), lambda: error(model(inputs)))


def other_parameters(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    optimizer = torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1)
    return descend(model, optimizer, lambda: error(model(inputs)))


def held_half(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    model, inputs = network(learned, device), batch(device)
    return descend(model, torch.optim.SGD(model[2].parameters(), lr=0.1), lambda: error(model(inputs)))


def held_half_apart(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    parts = nn.ModuleDict({"encoder": nn.Linear(4, 4), "head": nn.Linear(4, 1)}).to(device)
    learned.extend(parts.parameters())
    inputs = batch(device)
    optimizer = torch.optim.SGD(parts["head"].parameters(), lr=0.1)
    return descend(parts, optimizer, lambda: error(parts["head"](parts["encoder"](inputs))))


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
