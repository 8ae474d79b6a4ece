"""The first output, gradient or value that is NaN, infinite, or nothing but zeros."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional

from .frames import frames
from .values import local


class FiniteWatch:
    """Keeps the first of each kind; what is looked at is read on the device, one number each."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.found: Dict[str, Dict[str, Any]] = {}
        """By where: "output", "gradient", "value"."""
        self.zero: Optional[Dict[str, Any]] = None
        """The first module whose output was all zeros, though neither its input nor its parameters were."""

    def output(self, module: Any, inputs: List[Any], outputs: List[Any]) -> None:
        """Look at a module's output; one whose input was broken before is not to blame."""
        if "output" in self.found:
            return
        magnitudes = [greatest(tensor) for tensor in outputs]
        if not all(map(math.isfinite, magnitudes)):
            if not any(True for _ in module.parameters()) and all(masks(tensor) for tensor in outputs):
                return
            if all(math.isfinite(greatest(tensor)) for tensor in inputs):
                self.found["output"] = {"step": self.clock(), "owner": module, "frames": frames()}
        elif self.zero is None and not any(magnitudes):
            own = list(module.parameters(recurse=False))  # a fresh LoRA's B is zero, and so is what it gives
            if any(map(greatest, inputs)) and (not own or any(map(greatest, own))):
                self.zero = {"step": self.clock(), "owner": module, "frames": frames()}

    def note(self, where: str, owner: Any, frames: List[Dict[str, Any]]) -> None:
        """Keep the first of its kind: ``owner`` is a parameter."""
        self.found.setdefault(where, {"step": self.clock(), "owner": owner, "frames": frames})

    def first(self) -> Optional[Dict[str, Any]]:
        """The earliest of all: within a step, outputs come before gradients, and these before updates."""
        order = ("output", "gradient", "value")
        kept = [{**self.found[where], "where": where} for where in order if where in self.found]
        return min(kept, key=lambda each: each["step"]) if kept else None


def greatest(tensor: Any) -> float:
    """The greatest magnitude in ``tensor``, NaN if one is in it; 1 for one that is empty or cannot be read.

    Nothing of this may be saved for backward: non-reentrant checkpointing counts what a pass saves.
    """
    try:
        return float(local(tensor).detach().abs().max())
    except Exception:  # fake, batched, sparse or empty: nobody can tell
        return 1.0


def masks(tensor: Any) -> bool:
    """Whether the worst in ``tensor`` is minus infinity, as in an attention mask: meant, where nothing is learned."""
    return float(local(tensor).detach().max()) < math.inf
