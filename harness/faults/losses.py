"""Mistakes with the loss between the forward and the backward pass. No module is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .target import Target


def rewrapped_loss(_target: Target) -> None:
    """The loss is made anew from its value, to silence "does not require grad"."""
    original = torch.Tensor.backward

    def backward(loss: Any, *args: Any, **kwargs: Any) -> None:
        loss = torch.tensor(loss.item(), requires_grad=True)  # culprit
        original(loss, *args, **kwargs)

    torch.Tensor.backward = backward


def loss_made_a_leaf(_target: Target) -> None:
    """The loss is detached and then told to require a gradient."""
    original = torch.Tensor.backward

    def backward(loss: Any, *args: Any, **kwargs: Any) -> None:
        loss = loss.detach().requires_grad_()  # culprit
        original(loss, *args, **kwargs)

    torch.Tensor.backward = backward


def loss_as_variable(_target: Target) -> None:
    """The loss is wrapped in a ``Variable``, as answers from before torch 0.4 advise."""
    original = torch.Tensor.backward

    def backward(loss: Any, *args: Any, **kwargs: Any) -> None:
        loss = torch.autograd.Variable(loss.data, requires_grad=True)  # culprit
        original(loss, *args, **kwargs)

    torch.Tensor.backward = backward


def detached_loss(_target: Target) -> None:
    """The loss is detached, as one does to log it."""
    original = torch.Tensor.backward

    def backward(loss: Any, *args: Any, **kwargs: Any) -> None:
        loss = loss.detach()  # culprit
        original(loss, *args, **kwargs)

    torch.Tensor.backward = backward
