"""Mistakes in building an optimizer or in its ``step``. Each returns what the script then finds as ``AdamW``."""

from __future__ import annotations

import copy
import types
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .target import Target


def learning_rate_zero(_target: Target) -> Callable[..., Any]:
    """The learning rate is 0."""
    adamw = torch.optim.AdamW

    def build(parameters: Any, **settings: Any) -> Any:
        settings["lr"] = 0.0
        return adamw(parameters, **settings)  # culprit

    return build


def learning_rate_lost_to_rounding(_target: Target) -> Callable[..., Any]:
    """The learning rate is so small that bfloat16 weights never change."""
    adamw = torch.optim.AdamW

    def build(parameters: Any, **settings: Any) -> Any:
        settings["lr"] = 1e-12
        return adamw(parameters, **settings)  # culprit

    return build


def bound_to_a_copy(_target: Target) -> Callable[..., Any]:
    """The optimizer holds a deep copy of the parameters."""
    adamw = torch.optim.AdamW

    def build(parameters: Any, **settings: Any) -> Any:
        return adamw(copy.deepcopy(list(parameters)), **settings)  # culprit

    return build


def layer_left_out(target: Target) -> Callable[..., Any]:
    """The optimizer is not given the parameters of one layer."""
    adamw = torch.optim.AdamW

    def build(parameters: Any, **settings: Any) -> Any:
        everything = flat(parameters)
        target.find(everything)
        name, block = target.block()
        target.modules = [name]
        left_out = {id(parameter) for parameter in block.parameters()}
        return adamw([each for each in everything if id(each) not in left_out], **settings)  # culprit

    return build


def step_never_called(_target: Target) -> Callable[..., Any]:
    """``step`` is behind a condition that never holds."""
    adamw = torch.optim.AdamW

    def skipped(_optimizer: Any, closure: Any = None) -> Any:
        return None if closure is None else closure()

    def build(parameters: Any, **settings: Any) -> Any:
        optimizer = adamw(parameters, **settings)  # culprit
        optimizer.step = types.MethodType(skipped, optimizer)
        return optimizer

    return build


def step_does_nothing(_target: Target) -> type:
    """``step`` returns before anything is updated."""

    class Optimizer(torch.optim.AdamW):
        def step(self, closure: Any = None) -> Any:  # culprit
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            return loss

    return Optimizer


def decorated_step(_target: Target) -> type:
    """``step`` is decorated with ``no_grad`` and calls the closure that does the forward and the backward pass."""

    class Optimizer(torch.optim.AdamW):
        @torch.no_grad()  # culprit
        def step(self, closure: Any = None) -> Any:
            loss = None if closure is None else closure()
            super().step()
            return loss

    return Optimizer


def flat(parameters: Iterable[Any]) -> list[Any]:
    """The parameters of all groups."""
    found: list[Any] = []
    for each in parameters:
        found += each["params"] if isinstance(each, dict) else [each]
    return found
