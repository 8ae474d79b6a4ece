"""Watch a GradScaler: how often it was asked for a step, and by what it multiplied a loss.

In the audited steps it also looks at gradients that are still multiplied when they are clipped, or
when an optimizer steps.
"""

from __future__ import annotations

import sys
import weakref
from functools import wraps
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import frames
from .finite import greatest
from .frames import own_place
from .torches import held_by

SMALL = 0.01
"""A limit that is below this without the scale was not meant for scaled gradients."""


class ScalerWatch:
    """Counts the steps that a GradScaler was asked for; it skips those with NaN or infinity."""

    def __init__(self) -> None:
        self.asked: Dict[int, int] = {}
        """How often it was asked for an optimizer's step, by the optimizer's id."""
        self.kinds: Dict[int, str] = {}
        """The types of these optimizers."""
        self.made: Callable[[int], int] = lambda _optimizer: 0
        """How many steps an optimizer, given by its id, has made."""
        self.on_skip: Callable[[], None] = lambda: None
        """Called after each step that was skipped."""
        self.asked_at: List[Dict[str, Any]] = []
        """Where it was first asked."""
        self.scaling = False
        """A loss is being scaled."""
        self.clipped_scaled: List[Dict[str, Any]] = []
        """Where gradients were clipped before they were divided by the scale."""
        self.stepped_scaled: Optional[Dict[str, Any]] = None
        """By how much gradients were multiplied when a step first used them so, and where."""
        self.over = False
        """The audit is over, and no gradient is looked at."""
        self._stepping = False
        """The scaler makes a step itself: it divides the gradients first."""
        self._of_scaled = False
        """The loss that backward is called on is a scaled one."""
        self._reached: Dict[int, Any] = {}
        """The leaves that this pass reaches, by id, if its loss is a scaled one."""
        self._fresh: Dict[int, Tuple[Any, int, float]] = {}
        """The gradients as such a pass left them, by the id of the leaf: a weak reference, their
        version, which ``.data`` does not count, and their largest magnitude."""
        self._scaling: Callable[[], Any] = lambda: None
        """A weak reference to the scaler of the last loss."""
        self._divided: Set[int] = set()
        """Ids of the parameters whose gradients have been divided since by the scale."""
        self._clipped: Tuple[Set[int], List[Dict[str, Any]]] = set(), []
        """Ids of the parameters whose gradients have been clipped since, and where."""
        self._last: Optional[Tuple[Any, Any]] = None
        """A weak reference to the last scaled loss, and the loss without the scale."""

    def install(self) -> Callable[[], None]:
        """Wrap three methods of GradScaler. The returned function unwraps them."""
        import torch

        scaler = next(
            c for c in reversed(torch.cuda.amp.GradScaler.__mro__) if "step" in c.__dict__
        )
        original, original_scale, original_unscale = scaler.step, scaler.scale, scaler.unscale_

        @wraps(original)
        def step(this: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self.asked_at = self.asked_at or frames.frames(sys._getframe(1))
            self.asked[id(optimizer)] = self.asked.get(id(optimizer), 0) + 1
            self.kinds[id(optimizer)] = type(optimizer).__name__
            before = self.made(id(optimizer))
            self._stepping = True
            try:
                result = original(this, optimizer, *args, **kwargs)
            finally:
                self._stepping = False
            if self.made(id(optimizer)) == before:
                self.on_skip()
            return result

        @wraps(original_scale)
        def scale(this: Any, outputs: Any) -> Any:
            self.scaling = True
            try:
                scaled = original_scale(this, outputs)
            finally:
                self.scaling = False
            if isinstance(scaled, torch.Tensor) and scaled.numel() == 1:
                self._last = weakref.ref(scaled), outputs.detach()
            if not self.over:
                self._scaling, self._divided, self._clipped = weakref.ref(this), set(), (set(), [])
            return scaled

        @wraps(original_unscale)
        def unscale(this: Any, optimizer: Any) -> Any:
            if not self.over:
                held = set(map(id, held_by(optimizer)))
                if held & self._clipped[0]:
                    self.clipped_scaled = self.clipped_scaled or self._clipped[1]
                self._divided |= held
                self._fresh = {i: state for i, state in self._fresh.items() if i not in held}
            return original_unscale(this, optimizer)

        scaler.step, scaler.scale, scaler.unscale_ = step, scale, unscale

        def undo() -> None:
            scaler.step, scaler.scale = original, original_scale
            scaler.unscale_ = original_unscale

        return undo

    def clips(self, parameters: List[Any], limit: float, at: List[Dict[str, Any]]) -> None:
        """Gradients are about to be clipped to ``limit``, at the frames ``at``."""
        scaler = self._scaling()
        factor = 1.0 if scaler is None else scaler.get_scale()
        if factor > 1 and limit / factor < SMALL:
            with_one = {id(p): p for p in parameters if p.grad is not None}
            loose = with_one.keys() - self._divided
            if any(greatest(with_one[each].grad) > limit for each in loose):
                self._clipped = set(loose), at

    def unscaled(self, root: Any) -> Any:
        """The value of a root of backward, without the scale."""
        self._of_scaled = self._last is not None and self._last[0]() is root
        return self._last[1] if self._last is not None and self._of_scaled else root.detach()

    def reaches(self, leaves: Dict[int, Any]) -> None:
        """A backward pass is about to reach ``leaves``, by id."""
        self._fresh = {i: state for i, state in self._fresh.items() if i not in leaves}
        self._reached = leaves if self._of_scaled else {}

    def passed(self) -> None:
        """A backward pass is over."""
        with_one = {i: leaf.grad for i, leaf in self._reached.items() if leaf.grad is not None}
        self._fresh.update(
            (i, (weakref.ref(g), g._version, greatest(g))) for i, g in with_one.items()
        )
        self._reached = {}

    def _scaled(self, parameter: Any) -> bool:
        """Whether nothing has changed the gradient of ``parameter`` since backward made it."""
        gradient, version, most = self._fresh.get(id(parameter), (lambda: None, 0, 0.0))
        same = gradient() is parameter.grad and version == parameter.grad._version
        return same and most == greatest(parameter.grad)

    def steps(self, optimizer: Any, *given: Any) -> None:
        """An optimizer is about to step; what it is ``given`` may be the scale.

        A gradient that the script has changed since may have been divided by hand.
        """
        scaler = self._scaling()
        if self._stepping or scaler is None or any(given) or own_place(type(optimizer).step):
            return
        with_one = [p for p in held_by(optimizer) if p.grad is not None]
        scaled = any(map(self._scaled, with_one))
        if scaled and self.stepped_scaled is None and scaler.get_scale() > 1:
            text = f"{scaler.get_scale():g}"
            self.stepped_scaled = {"text": text, "frames": frames.frames()}

    def skipped(self, steps: Dict[int, int]) -> List[Dict[str, Any]]:
        """How many steps were skipped, for each optimizer; ``steps`` are those made, by id."""
        return [
            {"type": self.kinds[identity], "asked": asked, "made": steps.get(identity, 0)}
            for identity, asked in self.asked.items()
            if steps.get(identity, 0) < asked
        ]
