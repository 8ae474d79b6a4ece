"""Mistakes with gradients after the backward pass, and with parameters after the optimizer was built."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

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
