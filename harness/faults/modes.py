"""Mistakes with the modes in which a layer or the model runs. Each returns the modules that are to blame."""

from __future__ import annotations

import functools
import unittest
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from .target import Target, replace_forward


def no_grad_block(target: Target) -> list[str]:
    """One layer runs under ``no_grad``."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():  # culprit
            return original(*args, **kwargs)

    replace_forward(block, forward)
    return [name]


def no_grad_decorator(target: Target) -> list[str]:
    """The forward of one layer is decorated with ``no_grad``."""
    name, block = target.block()
    original = block.forward

    @torch.no_grad()  # culprit
    def forward(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    replace_forward(block, forward)
    return [name]


def set_grad_enabled_block(target: Target) -> list[str]:
    """One layer runs with gradients switched by a flag, and the flag is wrong."""
    name, block = target.block()
    original = block.forward
    train_layer = False

    def forward(*args: Any, **kwargs: Any) -> Any:
        with torch.set_grad_enabled(train_layer):  # culprit
            return original(*args, **kwargs)

    replace_forward(block, forward)
    return [name]


def inference_mode_block(target: Target) -> list[str]:
    """One layer runs under ``inference_mode``."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode():  # culprit
            return original(*args, **kwargs)

    replace_forward(block, forward)
    return [name]


def gradients_left_off(target: Target) -> list[str]:
    """Gradients are switched off in one layer, and never on again."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        torch.set_grad_enabled(False)  # culprit
        return original(*args, **kwargs)

    replace_forward(block, forward)
    return [name]


def no_grad_model(target: Target) -> list[str]:
    """The whole forward runs under ``no_grad``."""
    name, model = target.model()
    original = model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():  # culprit
            return original(*args, **kwargs)

    replace_forward(model, forward)
    return [name]


def no_grad_embeddings(target: Target) -> list[str]:
    """The embeddings are looked up under ``no_grad``, though they are to be trained."""
    found = target.embeddings()
    for _, embedding in found:

        def forward(*args: Any, original: Any = embedding.forward, **kwargs: Any) -> Any:
            with torch.no_grad():  # culprit
                return original(*args, **kwargs)

        replace_forward(embedding, forward)
    return [name for name, _ in found]


def cached_autocast(target: Target) -> list[str]:
    """A look under ``no_grad`` fills autocast's weight cache, from which the pass with gradients then takes."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 11):
        raise unittest.SkipTest("the autocast cache keeps gradients apart since torch 2.11")
    name, model = target.model()
    original = model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return original(*args, **kwargs)
        with torch.autocast(target.device, dtype=torch.bfloat16):
            with torch.no_grad():  # culprit
                original(*args, **kwargs)
            return original(*args, **kwargs)

    replace_forward(model, forward)
    return [name]


def reentrant_checkpoint(target: Target) -> list[str]:
    """The first layer is checkpointed by the reentrant kind, and what goes in needs no gradient."""
    for _, embedding in target.embeddings():
        embedding.requires_grad_(False)
    name, block = target.blocks()[0]
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        run = functools.partial(original, **kwargs)
        return checkpoint(run, *args, use_reentrant=True)  # culprit

    replace_forward(block, forward)
    return [name]
