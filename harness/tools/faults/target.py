"""What a fault changes: the model that is trained, one of its layers, its optimizer, the loss."""

from __future__ import annotations

import functools
import gc
import os
import random
import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

HARNESS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


class Target:
    """The model and its optimizer, from the moment when the optimizer is built.

    The seed decides which layer or parameter a fault affects.
    """

    def __init__(self, seed: str, device: str) -> None:
        self.random = random.Random(seed)
        self.device = device
        self.root: Any = None
        """The outermost module of which the optimizer holds something."""
        self.optimizer: Any = None
        self.modules: list[str] | None = None
        """Dotted names of the modules that a diagnosis may name; None where none is to blame."""
        self.built_at: tuple[str, int] | None = None

    def when_built(self, action: Callable[[], None]) -> None:
        """Call ``action`` as soon as the first optimizer holds something.

        This happens inside its construction, so that no frame of ours is between it and the line
        that builds it.
        """
        original = torch.optim.Optimizer.add_param_group

        def add_param_group(optimizer: Any, group: Any) -> None:
            original(optimizer, group)
            if self.optimizer is None:
                self.optimizer = optimizer
                self.built_at = caller()
                self.find(optimizer.param_groups[0]["params"])
                action()

        torch.optim.Optimizer.add_param_group = add_param_group

    def find(self, parameters: list[Any]) -> None:
        """Look for the model to which ``parameters`` belong."""
        if self.root is not None:
            return
        wanted = {id(parameter) for parameter in parameters}
        modules = [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]
        inner = {id(child) for module in modules for child in module.children()}
        outermost = [module for module in modules if id(module) not in inner]
        self.root = max(
            outermost,
            key=lambda module: sum(id(parameter) in wanted for parameter in module.parameters()),
        )

    def blocks(self) -> list[tuple[str, Any]]:
        """Names and modules of the layers.

        They are the children, with parameters, of the outermost lists of modules.
        """
        kinds = (torch.nn.ModuleList, torch.nn.Sequential)
        lists = [name for name, module in self.root.named_modules() if isinstance(module, kinds)]
        outermost = [
            name for name in lists if not any(name.startswith(other + ".") for other in lists)
        ]
        return [
            (f"{name}.{key}", child)
            for name in outermost
            for key, child in self.root.get_submodule(name).named_children()
            if any(parameter.requires_grad for parameter in child.parameters())
        ]

    def block(self) -> tuple[str, Any]:
        """One layer."""
        return self.random.choice(self.blocks())

    def parameter(self) -> tuple[str, str, Any]:
        """A trainable parameter of one layer: its module's name, its own name there, itself."""
        prefix, block = self.block()
        name, parameter = self.random.choice(
            [each for each in block.named_parameters() if each[1].requires_grad]
        )
        owner, _, own = name.rpartition(".")
        return (f"{prefix}.{owner}" if owner else prefix), own, parameter

    def model(self) -> tuple[str, Any]:
        """The module that the training loop calls.

        In a LightningModule the first with parameters.
        """
        if hasattr(self.root, "training_step"):
            return next(
                (name, m)
                for name, m in self.root.named_children()
                if any(True for _ in m.parameters())
            )
        return "", self.root

    def embeddings(self) -> list[tuple[str, Any]]:
        """The modules that hold the weight of the input embeddings."""
        model = next(
            (module for module in self.root.modules() if hasattr(module, "get_input_embeddings")),
            None,
        )
        if model is None:
            return []
        weight = model.get_input_embeddings().weight
        return [
            (n, m)
            for n, m in self.root.named_modules()
            if isinstance(m, torch.nn.Embedding) and m.weight is weight
        ]

    def after_backward(self, mistake: Callable[[], None]) -> None:
        """Make the mistake between the backward pass and the optimizer's step."""
        original = torch.Tensor.backward

        def backward(loss: Any, *args: Any, **kwargs: Any) -> None:
            original(loss, *args, **kwargs)
            mistake()

        torch.Tensor.backward = backward


def replace_forward(module: Any, forward: Callable[..., Any]) -> None:
    """Make ``module`` run ``forward``; a Trainer still reads the signature of the original."""
    module.forward = functools.wraps(module.forward)(forward)


def as_class(build: Any) -> type:
    """A class whose construction calls ``build``; some Trainers accept only a class."""
    if isinstance(build, type):
        return build

    class AdamW(torch.optim.AdamW):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return build(*args, **kwargs)

    return AdamW


def hidden_of(output: Any) -> Any:
    """The hidden state: the output of a layer, or the first part of it."""
    return output[0] if isinstance(output, tuple) else output


def with_hidden(output: Any, hidden: Any) -> Any:
    """The output of a layer with another hidden state."""
    return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


def caller() -> tuple[str, int] | None:
    """File name and line of the innermost call outside torch and the harness."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((HARNESS, TORCH, "<")):
        frame = frame.f_back
    return None if frame is None else (os.path.basename(frame.f_code.co_filename), frame.f_lineno)
