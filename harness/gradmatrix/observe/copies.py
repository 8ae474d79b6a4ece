"""Parameters of which an optimizer holds copies: DeepSpeed's ZeRO.

ZeRO keeps the values of many parameters in one flat tensor, which is what the optimizer holds, and
takes the gradients away before it steps. Stage 3 also takes the parameters' own values away while
their modules do not run, and gives the optimizer the flat tensor only while it steps.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Set

from .torches import held_by, read_gradient, reading, uninitialized

if TYPE_CHECKING:
    from .forward import ForwardWatch
    from .torches import Trouble


class CopyWatch:
    """Reads the gradients of such parameters when backward gives them."""

    def __init__(self, forward: ForwardWatch, trouble: Trouble) -> None:
        self.forward = forward
        self.trouble = trouble
        self.parameters: Dict[int, Any] = {}
        """The trainable parameters whose gradients are read here, by id."""
        self.compared: Set[int] = set()
        """Ids of the parameters that had values when it was asked whether these had moved."""
        self._arrived: Dict[int, str] = {}
        """The letter of the gradient that backward gave each of them since the last step."""
        self._held: Dict[int, Dict[int, Any]] = {}
        """What each optimizer held at its audited steps, by the optimizer's id and by its own."""
        self.part = False
        """The current step of an optimizer is a further part of the same training step."""
        self._filled: Dict[int, Set[int]] = {}
        """Which groups each optimizer had filled in the parts of this training step, by its id."""
        self._unhook: List[Callable[[], None]] = []

    def keep(self, optimizer: Any) -> None:
        """Keep what an optimizer holds while it steps."""
        self._held.setdefault(id(optimizer), {}).update((id(p), p) for p in held_by(optimizer))

    def held(self, optimizer: Any) -> List[Any]:
        """What an optimizer holds; if it holds nothing between its steps, what it held in them."""
        return held_by(optimizer) or list(self._held.get(id(optimizer), {}).values())

    def begin_step(self, optimizer: Any) -> None:
        """An optimizer begins a step. ZeRO 3 steps once for each group; the others are empty."""
        if len(optimizer.param_groups) == 1:
            self.part = False
            return
        filled = {n for n, group in enumerate(optimizer.param_groups) if group["params"]}
        known = self._filled.get(id(optimizer), set())
        self.part = bool(known and filled) and known.isdisjoint(filled)
        self._filled[id(optimizer)] = known | filled if self.part else filled

    def reached(self, optimizers: List[Any], leaves: Dict[int, Any]) -> None:
        """Backward is about to reach ``leaves``: follow what ran if no optimizer holds any."""
        held = {id(p) for each in optimizers for p in self.held(each)}
        if not optimizers or self.parameters or not held.isdisjoint(leaves):
            return
        ran = [m for i, m in self.forward.seen.items() if i in self.forward.trained]
        for parameter in {id(p): p for module in ran for p in module.parameters()}.values():
            copied = parameter.requires_grad and id(parameter) not in held
            if copied and not uninitialized(parameter):
                self.parameters[id(parameter)] = parameter
                hook = parameter.register_hook(partial(self._arrives, id(parameter)))
                self._unhook.append(hook.remove)

    def _arrives(self, identity: int, gradient: Any) -> None:
        """Backward gives a parameter a gradient; of several, the best one counts."""
        import torch

        try:
            with reading(torch):
                letter, _ = read_gradient(torch, gradient)
            self._arrived[identity] = max(letter, self.letter(identity), key="nzxf".index)
        except Exception as error:
            self.trouble.add("gradient", error)

    def letter(self, identity: int) -> str:
        """The letter of the gradient that a parameter got since the last step."""
        return self._arrived.get(identity, "n")

    def after_step(self) -> None:
        """A step is over."""
        self._arrived = {}

    def among(self, held: Set[int], read: Set[str]) -> Set[int]:
        """The parameters (ids) of which ``held`` are copies.

        None if a module that ran has something of ``held``, or if steps were made, and no gradient
        was ``read`` of what is held.
        """
        own = {id(p) for root in self.forward.roots() for p in root.parameters()}
        may_be = own.isdisjoint(held) and (not self._held or read - {"n"})
        return set(self.parameters) if may_be else set()

    def has_values(self, identity: int) -> bool:
        """Whether the values of a parameter can be read now: they are not somewhere else."""
        parameter = self.parameters.get(identity)
        return parameter is None or bool(parameter.numel())

    def remove(self) -> None:
        """Remove the hooks."""
        while self._unhook:
            self._unhook.pop()()

    def let_go(self) -> None:
        """Keep nothing of the script alive."""
        self.parameters.clear()
        self._held.clear()
