"""Mistakes with gradients after the backward pass, and with parameters after the optimizer was built."""

from __future__ import annotations

import copy
import math
import unittest
from typing import TYPE_CHECKING, Any

import torch

from .target import hidden_of, replace_forward

if TYPE_CHECKING:
    from .target import Target


def nan_gradient(target: Target) -> list[str]:
    """A hook makes the gradient of one parameter NaN."""
    owner, _, parameter = target.parameter()
    parameter.register_hook(lambda gradient: gradient * math.nan)  # culprit
    return [owner]


def infinite_gradient(target: Target) -> list[str]:
    """A hook makes the gradient of one parameter infinite."""
    owner, _, parameter = target.parameter()
    parameter.register_hook(lambda gradient: gradient / 0)  # culprit
    return [owner]


def zeroed_gradient(target: Target) -> list[str]:
    """A hook masks the whole gradient of one parameter."""
    owner, _, parameter = target.parameter()
    parameter.register_hook(lambda gradient: gradient * 0)  # culprit
    return [owner]


def gradient_of_hidden_zeroed(target: Target) -> list[str]:
    """A hook on the hidden state masks the whole gradient that flows back through it."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = hidden_of(output)
        if hidden.requires_grad:
            hidden.register_hook(torch.zeros_like)  # culprit
        return output

    replace_forward(block, forward)
    return [name]


def gradient_dropped(target: Target) -> list[str]:
    """The gradients of one layer are set to None between backward and step."""
    name, block = target.block()

    def drop() -> None:
        for parameter in block.parameters():
            parameter.grad = None  # culprit

    target.after_backward(drop)
    return [name]


def cleared_too_early(target: Target) -> None:
    """``zero_grad`` is called between backward and step."""

    def clear() -> None:
        target.optimizer.zero_grad()  # culprit

    target.after_backward(clear)


def clipped_to_zero(target: Target) -> None:
    """Gradients are clipped to a norm of 0, where 0 was meant to switch clipping off."""

    def clip() -> None:
        torch.nn.utils.clip_grad_norm_(target.root.parameters(), max_norm=0.0)  # culprit

    target.after_backward(clip)


def frozen_adapter(target: Target) -> list[str]:
    """All of LoRA is frozen: nothing is left to learn."""
    found = [(name, parameter) for name, parameter in target.root.named_parameters() if "lora_" in name]
    for _, parameter in found:
        parameter.requires_grad_(False)  # culprit
    return [name.rpartition(".")[0] for name, _ in found]


def parameter_replaced(target: Target) -> list[str]:
    """One parameter is replaced by a new one after the optimizer was built, as when a head is reset."""
    owner, own, parameter = target.parameter()
    setattr(target.root.get_submodule(owner), own, torch.nn.Parameter(parameter.detach().clone()))  # culprit
    return [owner]


def layer_loaded_anew(target: Target) -> list[str]:
    """A checkpoint is loaded into one layer with ``assign=True`` after the optimizer was built."""
    name, block = target.block()
    try:
        block.load_state_dict(copy.deepcopy(block.state_dict()), assign=True)  # culprit
    except TypeError:
        raise unittest.SkipTest("load_state_dict has no assign before torch 2.1") from None
    return [name]


def learning_rate_scheduled_to_zero(target: Target) -> None:
    """A schedule has come to its end before the training has."""

    def schedule() -> None:
        for group in target.optimizer.param_groups:
            group["lr"] = 0.0  # culprit

    target.after_backward(schedule)
