"""Mistakes in the forward of a layer or of the model. Each returns the names of the modules that are to blame."""

from __future__ import annotations

import functools
import unittest
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from .target import Target, hidden_of, replace_forward, with_hidden


def detached_hidden(target: Target) -> list[str]:
    """The hidden state is detached, as one does to look at it."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = hidden_of(output)
        hidden = hidden.detach()  # culprit
        return with_hidden(output, hidden)

    replace_forward(block, forward)
    return [name]


def data_of_hidden(target: Target) -> list[str]:
    """The hidden state is replaced by its ``.data``, as old tutorials do."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = hidden_of(output)
        hidden = hidden.data  # culprit
        return with_hidden(output, hidden)

    replace_forward(block, forward)
    return [name]


def hidden_through_numpy(target: Target) -> list[str]:
    """The hidden state goes through NumPy and back."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = hidden_of(output)
        values = hidden.detach().float().cpu().numpy()  # culprit
        return with_hidden(output, torch.from_numpy(values).to(hidden))

    replace_forward(block, forward)
    return [name]


def hidden_made_anew(target: Target) -> list[str]:
    """The hidden state is copied by ``torch.tensor``."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = hidden_of(output)
        hidden = torch.tensor(hidden)  # culprit
        return with_hidden(output, hidden)

    replace_forward(block, forward)
    return [name]


def hidden_made_a_leaf(target: Target) -> list[str]:
    """The hidden state becomes a leaf, so that its gradient can be looked at."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = hidden_of(output)
        hidden = hidden.detach().requires_grad_()  # culprit
        return with_hidden(output, hidden)

    replace_forward(block, forward)
    return [name]


def hidden_overwritten(target: Target) -> list[str]:
    """The hidden state is overwritten by zeros."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = hidden_of(output)
        hidden = torch.zeros_like(hidden)  # culprit
        return with_hidden(output, hidden)

    replace_forward(block, forward)
    return [name]


def hidden_rounded(target: Target) -> list[str]:
    """The hidden state is quantised without a straight-through estimator: the derivative is zero everywhere."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = hidden_of(output)
        hidden = torch.round(hidden * 8) / 8  # culprit
        return with_hidden(output, hidden)

    replace_forward(block, forward)
    return [name]


def output_forgotten(target: Target) -> list[str]:
    """The layer returns its input: what it computed is not used."""
    name, block = target.block()
    original = block.forward

    def forward(hidden: Any, *args: Any, **kwargs: Any) -> Any:
        output = original(hidden, *args, **kwargs)
        return with_hidden(output, hidden)  # culprit

    replace_forward(block, forward)
    return [name]


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


class SquareRoot(torch.nn.Module):
    """A transformation that some values do not have."""

    def forward(self, hidden: Any) -> Any:
        """NaN wherever the value is negative."""
        return torch.sqrt(hidden)


def nan_output(target: Target) -> list[str]:
    """A module gives NaN."""
    name, block = target.block()
    original = block.forward
    block.transformation = SquareRoot()

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = block.transformation(hidden_of(output))  # culprit
        return with_hidden(output, hidden)

    replace_forward(block, forward)
    return [f"{name}.transformation"]
