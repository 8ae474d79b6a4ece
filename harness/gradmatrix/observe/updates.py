"""Watch what a script updates without an optimizer: by hand, or with an optimizer of its own.

All that is to be seen of such an update is that values differ from one request for gradients to the
next. A request is a call of backward or of ``torch.autograd.grad``, which torch.func calls too. As
soon as an optimizer of torch steps, its steps are what is judged, and this watch ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from .frames import frames, here
from .parameters import Change
from .torches import Kept, is_parameter, reach, reading, uninitialized, unwrapped

if TYPE_CHECKING:
    from .parameters import ParameterWatch

PATIENCE = 8
"""So many requests may come before the first step of an optimizer that was built: a script may add
up the gradients of several batches."""
MOST = 16
"""The audit ends after so many requests, however few updates there were."""


class Watched:
    """A tensor, and those that take its place: ``w = w - lr * g`` makes a new one every time."""

    def __init__(self, tensor: Any) -> None:
        self.first = tensor
        self.latest = tensor
        self.kept: Optional[Kept] = None
        """Its value at the last request."""
        self.compared = False
        self.moved = False


class UpdateWatch:
    """Compares values from one request for gradients to the next.

    Args:
        audit: the updates whose gradients and values are looked at.
        parameters: it keeps what was seen.
        pending: tells whether an optimizer was built that may step later.
    """

    def __init__(self, audit: int, parameters: ParameterWatch, pending: Callable[[], bool]) -> None:
        self.audit = audit
        self.parameters = parameters
        self.pending = pending
        self.began: Callable[[], object] = bool
        """Called at the first request that is looked at."""
        self.updated: Callable[[], None] = lambda: None
        """Called after each update."""
        self.answered: Callable[[], None] = lambda: None
        """Called when the gradients of a request were read."""
        self.requests = 0
        """How often gradients were asked for before an optimizer of torch stepped."""
        self.asked_at: List[Dict[str, Any]] = []
        """Where they were first asked for."""
        self.read = 0
        """How many of these requests were looked at."""
        self.updates = 0
        self.over = False
        """An optimizer of torch steps."""
        self._places: Dict[Any, Watched] = {}
        self._smallest: Dict[int, Tuple[Any, str]] = {}
        """Of each outermost module that ran, by its id: where its smallest parameter is."""

    def end(self) -> None:
        """An optimizer of torch steps: it is what is judged."""
        self.over = True
        self.requests = self.read = self.updates = 0
        self._places = {}
        self.parameters.forget()

    @property
    def auditing(self) -> bool:
        """Whether gradients are read."""
        return self.read <= MOST and self.updates < self.audit

    def backward(self, roots: List[Any]) -> Optional[List[Watched]]:
        """Backward is about to be called on ``roots``. Returns what :meth:`request` returns."""
        stable = all(isinstance(place, int) for place in self._places)
        return self.request(
            lambda: list(reach(roots).leaves.values()) if self.auditing or not stable else []
        )

    def request(self, tensors: Callable[[], List[Any]]) -> Optional[List[Watched]]:
        """Gradients are about to be asked for ``tensors``.

        Returns:
            what :meth:`answer` expects the gradients of; None if it expects none.
        """
        if self.over:
            return None
        self.requests += 1
        self.asked_at = self.asked_at or frames()
        if self.pending() and self.requests <= PATIENCE:
            return None
        if not self.read:
            self.updates, self._places, self._smallest = 0, {}, {}
            self.began()
        self.read += 1
        auditing = self.auditing
        found = [self._watch(n, each, auditing=auditing) for n, each in enumerate(tensors())]
        asked = [watched for watched in found if watched is not None]
        self._compare(asked)
        return asked if auditing else None

    def answer(self, asked: List[Watched], gradients: List[Any]) -> None:
        """The ``gradients`` of a request have come."""
        firsts = [watched.first for watched in asked]
        self.parameters.asked(list(zip(firsts, gradients)), self.read)
        self.answered()
        if not self.auditing:
            self._settle()

    def look(self) -> None:
        """Compare the values once more, because nothing may be asked for after this."""
        self._compare([])

    def ran(self, module: Any) -> None:
        """An outermost module is about to run, perhaps with new values.

        A search without gradients (an evolution strategy) asks for none: all that is to be seen of
        it is a module that runs again and again, with other values each time.
        """
        import torch

        if self.over or self.requests or self.pending():
            return
        if id(module) not in self._smallest:
            if len(self._smallest) == MOST:
                return
            self._smallest[id(module)] = smallest_of(module)
        owner, name = self._smallest[id(module)]
        tensor = None if owner is None else owner._parameters.get(name)
        if tensor is not None:
            known = self._places.setdefault(id(module), Watched(module))
            known.latest = unwrapped(torch, tensor)
            self._compare([known])

    def _watch(self, position: int, tensor: Any, *, auditing: bool) -> Optional[Watched]:
        """What ``tensor`` is, or takes the place of.

        A parameter is itself. Another tensor takes the place of the one that stood at its position
        in the last request from this line.
        """
        place = here(), position, tensor.shape, tensor.dtype
        own = id(tensor) if is_parameter(tensor) else place
        watched = self._places.get(own)
        if watched is None and auditing:
            watched = self._places[own] = Watched(tensor)
            self._places.setdefault(place, watched)
        if watched is not None:
            watched.latest = tensor
        return watched

    def _compare(self, asked: List[Watched]) -> None:
        """Find out what has changed since the last request, and keep the values of now."""
        import torch

        with reading(torch):
            known = {id(watched): watched for watched in self._places.values()}.values()
            moved = [watched for watched in known if self._has_moved(torch, watched)]
            for watched in (*moved, *asked):
                watched.kept = self.parameters.kept(torch, watched.latest)
        if moved:
            self.updates += 1
            self.updated()

    def _has_moved(self, torch: Any, watched: Watched) -> bool:
        if watched.kept is None:
            return False
        watched.compared = True
        change = self.parameters.differs(torch, watched.latest, watched.kept)
        if change is Change.BROKEN and not self.requests:  # by a search, and not by a gradient
            self.parameters.forward.finite.note("value", watched.first, frames())
        if change is not Change.FINITE:
            return False
        watched.moved = True
        self.parameters.changed(watched.first)
        return True

    def _settle(self) -> None:
        """The audit is over: one tensor that moved is enough to count updates."""
        for watched in self._places.values():
            if not watched.compared:
                self.parameters.drop(watched.first)
        moved = [(place, each) for place, each in self._places.items() if each.moved]
        self._places = dict(sorted(moved, key=lambda item: item[1].latest.numel())[:1])


def smallest_of(module: Any) -> Tuple[Any, str]:
    """The smallest parameter of ``module``: the module that owns it, or None, and its name there.

    A call of ``functional_call`` puts another tensor in this place for its time.
    """
    places = [
        (parameter.numel(), owner, name)
        for owner in module.modules()
        for name, parameter in owner._parameters.items()
        if parameter is not None and not uninitialized(parameter)
    ]
    _, owner, name = min(places, key=lambda place: place[0], default=(0, None, ""))
    return owner, name
