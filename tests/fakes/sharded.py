"""An engine as DeepSpeed's ZeRO: the optimizer holds one flat copy of all parameters.

It takes the gradients away before the optimizer steps. Stage 3 also takes away the values between
two steps, and the optimizer holds the copy only while it steps.
"""

# ruff: noqa: D103  (a variant's summary is in VARIANTS)

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from tests.fakes.loop import Model, batch, error

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = ("torch",)

VARIANTS = {
    "stage_2": {"role": "control", "summary": "the parameters keep their values"},
    "stage_3": {"role": "control", "summary": "they have none while the engine does not run"},
    "stage_3_groups": {
        "role": "control",
        "summary": "weights and biases apart: the optimizer steps once for each group",
    },
    "stage_2_unused": {"role": "reported", "summary": "the second layer takes no part"},
    "stage_3_unused": {"role": "reported", "summary": "the second layer takes no part"},
    "stage_3_zero": {"role": "reported", "summary": "the loss is multiplied by 0"},
    "stage_3_no_graph": {"role": "reported", "summary": "the loss is detached"},
    "hook_computes": {
        "role": "reported",
        "summary": "a hook computes after its module; then a tensor is detached",
    },
}


def train(variant: str, device: str, steps: int) -> None:
    """Take `steps` steps of the variant's loop."""
    torch.manual_seed(0)
    model, inputs = Model().to(device), batch(device)
    loop = hook_computes(model, inputs) if "hook" in variant else sharded(variant, model, inputs)
    for _ in zip(range(steps), loop, strict=False):
        pass


def sharded(variant: str, model: nn.Module, inputs: torch.Tensor) -> Iterator[None]:
    if variant.endswith("unused"):
        model.blocks[1].forward = lambda hidden: hidden
    engine = Engine(model, releases="stage_3" in variant, apart=variant.endswith("groups"))
    while True:
        engine.gather()
        loss = error(model(inputs)) * (0 if variant.endswith("zero") else 1)
        (loss.detach() if variant.endswith("no_graph") else loss).backward()
        engine.step()
        yield


class Engine:
    """Trains a model by flat copies of its parameters, one for each group."""

    def __init__(self, model: nn.Module, *, releases: bool, apart: bool) -> None:
        self.releases = releases
        weights = [p for p in model.parameters() if p.dim() > 1]
        biases = [p for p in model.parameters() if p.dim() == 1]
        self.groups = [weights, biases] if apart else [[*weights, *biases]]
        for parameter in (*weights, *biases):
            parameter.ds_shape = parameter.shape
        self.flats = [
            torch.cat([p.detach().flatten() for p in group]).requires_grad_()
            for group in self.groups
        ]
        self.optimizer = torch.optim.SGD([{"params": group} for group in self.groups], lr=0.1)
        for held, flat in zip(self.optimizer.param_groups, self.flats, strict=True):
            held["params"] = [] if releases else [flat]
        self.release()

    def gather(self) -> None:
        """Give the parameters their values."""
        for group, flat in zip(self.groups, self.flats, strict=True):
            parts = flat.detach().split([parameter.ds_shape.numel() for parameter in group])
            for parameter, values in zip(group, parts, strict=True):
                parameter.data = values.view(parameter.ds_shape).clone()

    def release(self) -> None:
        """Take the values away again."""
        for group in self.groups if self.releases else ():
            for parameter in group:
                parameter.data = torch.empty(0)

    def step(self) -> None:
        """Step with the gradients of all parameters, zeros for those that have none."""
        for group, flat in zip(self.groups, self.flats, strict=True):
            gradients = [torch.zeros(p.ds_shape) if p.grad is None else p.grad for p in group]
            flat.grad = torch.cat([gradient.flatten() for gradient in gradients])
            for parameter in group:
                parameter.grad = None
        self.release()
        for held, flat in zip(self.optimizer.param_groups, self.flats, strict=True):
            held["params"] = [flat]
            if self.releases:
                self.optimizer.step()
                held["params"] = []
        if not self.releases:
            self.optimizer.step()
            self.gather()


class Holding(nn.Module):  # type: ignore[misc]  # torch is not installed where this is checked
    """A part whose output is detached in its own forward."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Go on without a graph."""
        return self.model(inputs).detach() + inputs.mean()  # culprit: hook_computes


def hook_computes(model: nn.Module, inputs: torch.Tensor) -> Iterator[None]:
    model.register_forward_hook(lambda _module, _inputs, output: output.detach() + output * 0)
    part, last = Holding(model), nn.Linear(1, 1)
    whole = nn.Sequential(part, last)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        error(whole(inputs)).backward()
        optimizer.step()
        yield
