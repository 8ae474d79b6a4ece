"""Watch a GradScaler: how often it was asked for a step, and by what it multiplied a loss."""

from __future__ import annotations

import sys
import weakref
from functools import wraps
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import frames


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
        self._last: Optional[Tuple[Any, Any]] = None
        """A weak reference to the last scaled loss, and the loss without the scale."""

    def install(self) -> Callable[[], None]:
        """Wrap two methods of GradScaler. The returned function unwraps them."""
        import torch

        scaler = next(
            c for c in reversed(torch.cuda.amp.GradScaler.__mro__) if "step" in c.__dict__
        )
        original, original_scale = scaler.step, scaler.scale

        @wraps(original)
        def step(this: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self.asked_at = self.asked_at or frames.frames(sys._getframe(1))
            self.asked[id(optimizer)] = self.asked.get(id(optimizer), 0) + 1
            self.kinds[id(optimizer)] = type(optimizer).__name__
            before = self.made(id(optimizer))
            result = original(this, optimizer, *args, **kwargs)
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
            if isinstance(scaled, torch.Tensor):
                self._last = weakref.ref(scaled), outputs.detach()
            return scaled

        scaler.step, scaler.scale = step, scale

        def undo() -> None:
            scaler.step, scaler.scale = original, original_scale

        return undo

    def unscaled(self, root: Any) -> Any:
        """The value of a root of backward, without the scale."""
        if self._last is not None and self._last[0]() is root:
            return self._last[1]
        return root.detach()

    def skipped(self, steps: Dict[int, int]) -> List[Dict[str, Any]]:
        """How many steps were skipped, for each optimizer; ``steps`` are those made, by id."""
        return [
            {"type": self.kinds[identity], "asked": asked, "made": steps.get(identity, 0)}
            for identity, asked in self.asked.items()
            if steps.get(identity, 0) < asked
        ]
