"""What goes wrong after the audit: a script trains well at first, and later nothing learns.

The checks run before each step and read no tensor: a learning rate, and whether gradients are
there.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from .frames import line
from .torches import held_by, highest_rate

if TYPE_CHECKING:
    from .births import BirthWatch
    from .severing import SeveringWatch

ENOUGH = 5
"""So many steps up to the end, and half of all, are more than the end of a schedule."""
EMPTY = 3
"""So many steps without any gradient are more than a phase between two others."""
TINY = 1e-8
"""A learning rate that is so small beside the highest one changes nothing."""


class LateWatch:
    """Counts the last steps in which nothing was left to learn.

    Args:
        births: what was made after the first optimizer was built.
        severing: what was frozen, and where.
    """

    def __init__(self, births: BirthWatch, severing: SeveringWatch) -> None:
        self.births = births
        self.severing = severing
        self.made_by: Callable[[Any], List[Dict[str, Any]]] = lambda _optimizer: []
        """What sets the learning rate of an optimizer, and where it was built."""
        self.audited: Callable[[Any], bool] = bool
        """Whether the current step of an optimizer is audited."""
        self.steps = 0
        self._top: Dict[int, float] = {}
        """The highest learning rate of each optimizer, by id."""
        self._low: Optional[Dict[str, Any]] = None
        self._empty: Optional[Dict[str, Any]] = None
        self._held: Dict[int, Any] = {}
        """What optimizers held, by id (weak references)."""
        self._extra: Optional[Dict[str, Any]] = None
        """What a later optimizer holds beyond the earlier ones, if it was frozen at the start."""

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        self.steps += 1
        rate = highest_rate(optimizer)
        top = self._top[id(optimizer)] = max(self._top.get(id(optimizer), 0.0), rate or 0.0)
        if rate is None or rate > TINY * top:
            self._low = None
        else:
            self._low = self._low or self._begun(optimizer)
            self._low["frames"] = self._low["frames"] or self.made_by(optimizer)
            self._low["steps"] += 1
        if self.audited(optimizer) or any(p.grad is not None for p in held_by(optimizer)):
            self._empty = None
            return
        self._empty = self._empty or self._begun(optimizer)
        self._empty["steps"] += 1
        if self._empty["steps"] == EMPTY:
            self._empty["frames"] = self.births.with_gradient()

    def built(self, optimizer: Any) -> None:
        """An optimizer was built: note what it holds beyond the earlier ones."""
        held = held_by(optimizer)
        self._held = {i: each for i, each in self._held.items() if each() is not None}
        extra = [each for each in held if id(each) not in self._held]
        self._extra = None
        if self.steps and 0 < len(extra) < len(held):
            self._extra = {**self._begun(optimizer), "since": self.steps}
            self._extra["parameters"] = [weakref.ref(each) for each in extra]
        self._held.update((id(each), weakref.ref(each)) for each in held)

    def _begun(self, optimizer: Any) -> Dict[str, Any]:
        return {"optimizer": type(optimizer).__name__, "steps": 0, "frames": []}

    def facts(self) -> Optional[Dict[str, Any]]:
        """What kept the last steps from learning; None if nothing did."""
        low, empty, extra = self._low, self._empty, self._extra
        if low is not None and low["steps"] >= max(ENOUGH, self.steps / 2):
            return {**low, "how": "rate"}
        if empty is not None and empty["frames"]:
            return {**empty, "how": "empty"}
        if extra is not None and self.steps - extra["since"] >= EMPTY:
            alive = {id(each()): each() for each in extra["parameters"] if each() is not None}
            frozen = [
                at
                for at, members in self.severing.froze.items()
                if any(id(member()) in alive for member in members)
            ]
            if frozen and not any(each.requires_grad for each in alive.values()):
                steps = self.steps - extra["since"]
                named = {"how": "frozen", "optimizer": extra["optimizer"], "steps": steps}
                return {**named, "frames": line(frozen[-1])}
        return None
