"""Known mistakes, written as people write them; the line to blame ends with ``# culprit``.

Most functions make their mistake when the first optimizer is built. They return the names of the
modules to blame, or None if no module is to blame. Those of ``OF_OPTIMIZER`` come earlier: they
return what the script then finds as ``AdamW``.
"""

from __future__ import annotations

import copy
import functools
import math
import types
import unittest
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.checkpoint import checkpoint

from .target import Target, hidden_of, replace_forward, with_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def on_hidden(mistake: Callable[[Any], Any]) -> Callable[[Target], list[str]]:
    """Make ``mistake`` with the hidden state that one layer returns."""

    def fault(target: Target) -> list[str]:
        name, block = target.block()
        original = block.forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            output = original(*args, **kwargs)
            return with_hidden(output, mistake(hidden_of(output)))

        replace_forward(block, forward)
        return [name]

    return fault


def on_loss(mistake: Callable[[Any], Any]) -> Callable[[Target], None]:
    """Make ``mistake`` with the loss between the forward and the backward pass."""

    def fault(_target: Target) -> None:
        original = torch.Tensor.backward

        def backward(loss: Any, *args: Any, **kwargs: Any) -> None:
            original(mistake(loss), *args, **kwargs)

        torch.Tensor.backward = backward

    return fault


@on_hidden
def detached_hidden(hidden: Any) -> Any:
    """The hidden state is detached, as one does to look at it."""
    return hidden.detach()  # culprit


@on_hidden
def data_of_hidden(hidden: Any) -> Any:
    """The hidden state is replaced by its ``.data``, as old tutorials do."""
    return hidden.data  # culprit


@on_hidden
def hidden_through_numpy(hidden: Any) -> Any:
    """The hidden state goes through NumPy and back."""
    values = hidden.detach().float().cpu().numpy()  # culprit
    return torch.from_numpy(values).to(hidden)


@on_hidden
def hidden_made_anew(hidden: Any) -> Any:
    """The hidden state is copied by ``torch.tensor``."""
    return torch.tensor(hidden)  # culprit


@on_hidden
def hidden_made_a_leaf(hidden: Any) -> Any:
    """The hidden state becomes a leaf, so that its gradient can be looked at."""
    return hidden.detach().requires_grad_()  # culprit


@on_hidden
def hidden_overwritten(hidden: Any) -> Any:
    """The hidden state is overwritten by zeros."""
    return torch.zeros_like(hidden)  # culprit


@on_hidden
def hidden_rounded(hidden: Any) -> Any:
    """The hidden state is rounded without a straight-through estimator: its derivative is zero."""
    return torch.round(hidden * 8) / 8  # culprit


@on_hidden
def hidden_binarised(hidden: Any) -> Any:
    """The hidden state becomes its sign bit, without a straight-through estimator."""
    return (hidden > 0).to(hidden)  # culprit


@on_hidden
def hidden_masked(hidden: Any) -> Any:
    """The hidden state is multiplied by a mask of zeros."""
    mask = torch.zeros_like(hidden)  # culprit
    return hidden * mask  # culprit


def output_forgotten(target: Target) -> list[str]:
    """The layer returns its input: what it computed is not used."""
    name, block = target.block()
    original = block.forward

    def forward(hidden: Any, *args: Any, **kwargs: Any) -> Any:
        output = original(hidden, *args, **kwargs)
        return with_hidden(output, hidden)  # culprit

    replace_forward(block, forward)
    return [name]


def nan_output(target: Target) -> list[str]:
    """A module returns NaN."""

    class SquareRoot(torch.nn.Module):
        def forward(self, hidden: Any) -> Any:
            return torch.sqrt(hidden)  # culprit

    name, block = target.block()
    original = block.forward
    block.transformation = SquareRoot()

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        return with_hidden(output, block.transformation(hidden_of(output)))

    replace_forward(block, forward)
    return [f"{name}.transformation"]


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
    """A hook sets the gradient of one parameter to zero."""
    owner, _, parameter = target.parameter()
    parameter.register_hook(lambda gradient: gradient * 0)  # culprit
    return [owner]


@on_hidden
def gradient_of_hidden_zeroed(hidden: Any) -> Any:
    """A hook on the hidden state sets the whole gradient that flows back through it to zero."""
    if hidden.requires_grad:
        hidden.register_hook(torch.zeros_like)  # culprit
    return hidden


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
    """Gradients are clipped to a norm of 0, which was meant to switch clipping off."""

    def clip() -> None:
        torch.nn.utils.clip_grad_norm_(target.root.parameters(), max_norm=0.0)  # culprit

    target.after_backward(clip)


def frozen_adapter(target: Target) -> list[str]:
    """All LoRA parameters are frozen: nothing is left to learn."""
    found = [
        (name, parameter) for name, parameter in target.root.named_parameters() if "lora_" in name
    ]
    for _, parameter in found:
        parameter.requires_grad_(False)  # culprit
    return [name.rpartition(".")[0] for name, _ in found]


def parameter_replaced(target: Target) -> list[str]:
    """One parameter is replaced after the optimizer was built, as when a head is reset."""
    owner, own, parameter = target.parameter()
    setattr(
        target.root.get_submodule(owner), own, torch.nn.Parameter(parameter.detach().clone())
    )  # culprit
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
    """A schedule ends before the training does."""

    def schedule() -> None:
        for group in target.optimizer.param_groups:
            group["lr"] = 0.0  # culprit

    target.after_backward(schedule)


@on_loss
def rewrapped_loss(loss: Any) -> Any:
    """The loss is made again from its value, to silence "does not require grad"."""
    return torch.tensor(loss.item(), requires_grad=True)  # culprit


@on_loss
def loss_made_a_leaf(loss: Any) -> Any:
    """The loss is detached and then set to require a gradient."""
    return loss.detach().requires_grad_()  # culprit


@on_loss
def loss_as_variable(loss: Any) -> Any:
    """The loss is wrapped in a ``Variable``, as answers from before torch 0.4 advise."""
    return torch.autograd.Variable(loss.data, requires_grad=True)  # culprit


@on_loss
def detached_loss(loss: Any) -> Any:
    """The loss is detached, as one does to log it."""
    return loss.detach()  # culprit


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
    """Gradients are switched off in one layer and never on again."""
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
    """The embeddings are looked up under ``no_grad``, although they should be trained."""
    found = target.embeddings()
    for _, embedding in found:

        def forward(*args: Any, original: Any = embedding.forward, **kwargs: Any) -> Any:
            with torch.no_grad():  # culprit
                return original(*args, **kwargs)

        replace_forward(embedding, forward)
    return [name for name, _ in found]


def cached_autocast(target: Target) -> list[str]:
    """A pass under ``no_grad`` fills autocast's weight cache, which the next pass uses."""
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
    """The first layer has a reentrant checkpoint, and its input needs no gradient."""
    for _, embedding in target.embeddings():
        embedding.requires_grad_(False)
    name, block = target.blocks()[0]
    original = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        run = functools.partial(original, **kwargs)
        return checkpoint(run, *args, use_reentrant=True)  # culprit

    replace_forward(block, forward)
    return [name]


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
    """The optimizer does not get the parameters of one layer."""
    adamw = torch.optim.AdamW

    def build(parameters: Any, **settings: Any) -> Any:
        everything = flat(parameters)
        target.find(everything)
        name, block = target.block()
        target.modules = [name]
        left_out = {id(parameter) for parameter in block.parameters()}
        return adamw(
            [each for each in everything if id(each) not in left_out], **settings
        )  # culprit

    return build


def step_never_called(_target: Target) -> Callable[..., Any]:
    """``step`` is behind a condition that is never true."""
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
    """``step`` is decorated with ``no_grad`` and calls the closure that runs both passes."""

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


OF_OPTIMIZER = (
    learning_rate_zero,
    learning_rate_lost_to_rounding,
    bound_to_a_copy,
    layer_left_out,
    step_never_called,
    step_does_nothing,
    decorated_step,
)
