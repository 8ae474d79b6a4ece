"""Mistakes with what a layer gives: its hidden state. Each returns the names of the modules that are to blame."""

from __future__ import annotations

from typing import Any

import torch

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


def hidden_binarised(target: Target) -> list[str]:
    """The hidden state becomes its sign bit, as in a binary network without a straight-through estimator."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = hidden_of(output)
        hidden = (hidden > 0).to(hidden)  # culprit
        return with_hidden(output, hidden)

    replace_forward(block, forward)
    return [name]


def hidden_masked(target: Target) -> list[str]:
    """The hidden state is multiplied by a mask that masks everything."""
    name, block = target.block()
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = hidden_of(output)
        mask = torch.zeros_like(hidden)  # culprit
        hidden = hidden * mask  # culprit
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
