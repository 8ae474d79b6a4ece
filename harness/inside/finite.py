"""The first NaN or infinity: in a module's output, in a gradient, or in a parameter after the optimizer's step."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional


class FiniteWatch:
    """Keeps the first of each kind; what is looked at is read on the device, one number each."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.found: Dict[str, Dict[str, Any]] = {}
        """By where: "output", "gradient", "value"."""

    def output(self, module: Any, inputs: List[Any], outputs: List[Any]) -> None:
        """Look at a module's output; one whose input was broken before is not to blame."""
        if "output" in self.found:
            return
        if any(not finite(tensor) for tensor in outputs) and all(finite(tensor) for tensor in inputs):
            from .frames import frames

            self.found["output"] = {"step": self.clock(), "owner": module, "frames": frames()}

    def note(self, where: str, owner: Any, frames: List[Dict[str, Any]]) -> None:
        """Keep the first of its kind: ``owner`` is a parameter."""
        self.found.setdefault(where, {"step": self.clock(), "owner": owner, "frames": frames})

    def first(self) -> Optional[Dict[str, Any]]:
        """The earliest of all: within a step, outputs come before gradients, and these before updates."""
        order = ("output", "gradient", "value")
        kept = [{**self.found[where], "where": where} for where in order if where in self.found]
        return min(kept, key=lambda each: each["step"]) if kept else None


def finite(tensor: Any) -> bool:
    """Whether all of ``tensor`` is finite; one that cannot be read counts as finite.

    Nothing of this may be saved for backward: non-reentrant checkpointing counts what a pass saves.
    """
    try:
        return bool(tensor.detach().isfinite().all())
    except Exception:  # fake, batched or sparse: nobody can tell
        return True
