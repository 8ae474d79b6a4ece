"""What last wrote a learning rate of 0: an optimizer's constructor, a scheduler, an assignment.

Also what keeps it near 0.
"""

from __future__ import annotations

import ast
import math
import re
import sys
import weakref
from contextlib import contextmanager
from functools import wraps
from typing import Any, Callable, Dict, Iterator, List, Optional

from . import source
from .frames import frames, mine, of_user, outside, place
from .torches import highest_rate

RATE = re.compile(r"(?:^|_)(?:lr|learning_rate)$", re.IGNORECASE)
SCHEDULER = re.compile(r"sched|warm_?up|anneal|lr$", re.IGNORECASE)
"""The names of classes and functions that make a scheduler, and of arguments that set one."""
LOW = 0.01
"""The part of an optimizer's first learning rate below which it hardly learns."""
SPENT = 0.02
"""The same for ReduceLROnPlateau: two steps to a tenth each leave 0.01, up to rounding."""
SEVERAL = 2
"""A scheduler has made so many steps if it stepped once, beside the one at its start."""
LOWERED = 2
"""So often at least it lowered the rate, while no value was better than the first."""
SLIGHT = 0.1
"""A value that got worse is a bit better than the first at times, by this part of all its range."""


class Plateau:
    """What a ReduceLROnPlateau was given, and what it did to the learning rate."""

    def __init__(self, scheduler: Any, at: List[Dict[str, Any]]) -> None:
        self.of = weakref.ref(scheduler)
        self.at = at
        self.mode = "min"
        self.values: List[float] = []
        """The first value, the least, the greatest and the last."""
        self.rates: List[float] = []
        """The learning rate before the first step and after the last one."""
        self.lowered = 0

    def stepped(self, value: float, before: Optional[float], after: Optional[float]) -> None:
        """A step was made with ``value``, between these two learning rates."""
        if before is None or after is None or not math.isfinite(value):
            return
        first, least, greatest, _ = self.values or [value] * 4
        self.values = [first, min(least, value), max(greatest, value), value]
        self.rates = [*(self.rates[:1] or [before]), after]
        self.lowered += after < before

    def facts(self) -> List[Dict[str, Any]]:
        """Where it was built, if it lowered the rate while the value only got worse."""
        if self.lowered < LOWERED or self.rates[1] >= SPENT * self.rates[0]:
            return []
        first, least, greatest, last = self.values
        better, worse = first - least, last - first
        if self.mode == "max":
            better, worse = greatest - first, -worse
        if worse <= (greatest - least) / 2 or better > SLIGHT * (greatest - least):
            return []
        text = "from {:.3g} to {:.3g}, so it lowered the learning rate from {:.2g} to {:.2g}"
        text = text.format(first, last, *self.rates)
        return [{"how": f"plateau_{self.mode}", "text": text, "frames": setter(self.at)}]


class RateWatch:
    """Watches schedulers being built."""

    def __init__(self) -> None:
        self._first: Dict[int, Optional[float]] = {}
        """The learning rate that an optimizer was built with, by id."""
        self._schedulers: Dict[int, List[Any]] = {}
        """The schedulers of an optimizer, by its id: a weak reference, and where it was built."""
        self._zeros: Dict[int, List[Dict[str, Any]]] = {}
        """By id of a scheduler: where the user's functions returned 0 while it was built."""
        self._kept: List[Any] = []
        """Schedulers that are kept alive. A scheduler holds its optimizer."""
        self.over = False
        """The audit is over: no further scheduler is kept alive."""
        self._most: Dict[int, float] = {}
        """The highest learning rate after the audit, by id of the optimizer."""
        self._in_use: Dict[int, List[Dict[str, Any]]] = {}
        """Where the scheduler was built that stepped most often until then, of several."""
        self._loaded: Dict[int, List[Dict[str, Any]]] = {}
        """By id of an optimizer: where a state was loaded that set its learning rate to 0."""
        self._plateaus: List[Plateau] = []
        self._doubled: Dict[int, List[Dict[str, Any]]] = {}
        """By id of an optimizer: the second of two schedulers of a kind that always stepped as
        often; empty if they are no such two."""

    def install(self) -> Callable[[], None]:
        """Wrap the constructor of schedulers, and the loading of optimizers.

        The returned function unwraps both.
        """
        from torch.optim import Optimizer, lr_scheduler

        kind: Any = getattr(lr_scheduler, "LRScheduler", None) or lr_scheduler._LRScheduler
        original = kind.__init__

        @wraps(original)
        def watched(scheduler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
            inner = optimizer
            while isinstance(getattr(inner, "optimizer", None), Optimizer):  # Accelerate wraps it
                inner = inner.optimizer
            known = self._schedulers.setdefault(id(inner), [])
            at = frames(outside(sys._getframe(1), scheduler))
            known.append((weakref.ref(scheduler), at))
            if not self.over:
                self._kept.append(scheduler)
            with zeros() as self._zeros[id(scheduler)]:
                original(scheduler, optimizer, *args, **kwargs)

        load: Any = Optimizer.load_state_dict

        @wraps(load)
        def loaded(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before, result = highest_rate(optimizer), load(optimizer, *args, **kwargs)
            if before and highest_rate(optimizer) == 0:
                self._loaded[id(optimizer)] = frames(sys._getframe(1))
            return result

        owner: Any = Optimizer
        kind.__init__, owner.load_state_dict = watched, loaded

        unwatch = self._watch_plateaus(lr_scheduler.ReduceLROnPlateau)

        def undo() -> None:
            kind.__init__, owner.load_state_dict = original, load
            unwatch()

        return undo

    def _watch_plateaus(self, kind: Any) -> Callable[[], None]:
        """Wrap ReduceLROnPlateau, which has no constructor in common with other schedulers."""
        begin, step = kind.__init__, kind.step

        @wraps(begin)
        def began(scheduler: Any, *args: Any, **kwargs: Any) -> None:
            begin(scheduler, *args, **kwargs)
            at = frames(outside(sys._getframe(1), scheduler))
            self._plateaus.append(Plateau(scheduler, at))

        @wraps(step)
        def stepped(scheduler: Any, metrics: Any, *args: Any, **kwargs: Any) -> Any:
            before = highest_rate(scheduler.optimizer)
            result = step(scheduler, metrics, *args, **kwargs)
            known = next((p for p in reversed(self._plateaus) if p.of() is scheduler), None)
            if known is not None:
                known.mode = scheduler.mode
                known.stepped(float(metrics), before, highest_rate(scheduler.optimizer))
            return result

        kind.__init__, kind.step = began, stepped

        def undo() -> None:
            kind.__init__, kind.step = begin, step

        return undo

    def built(self, optimizer: Any) -> None:
        """An optimizer was built."""
        self._first[id(optimizer)] = highest_rate(optimizer)
        for known in (
            *(self._loaded, self._schedulers, self._most, self._in_use),
            self._doubled,
        ):
            known.pop(id(optimizer), None)  # of one that is gone

    def let_go(self) -> None:
        """Keep no scheduler alive."""
        self._kept.clear()

    def look(self, optimizer: Any) -> None:
        """Look at the learning rate of a step after the audit."""
        if id(optimizer) in self._schedulers:
            rate = highest_rate(optimizer) or 0.0
            self._most[id(optimizer)] = max(rate, self._most.get(id(optimizer), 0.0))
            living = self._living(optimizer)
            if len(living) > 1:  # as in a SequentialLR, which steps one after the other
                steps = [getattr(each, "_step_count", 0) for each, _ in reversed(living)]
                self._in_use[id(optimizer)] = living[-1 - steps.index(max(steps))][1]
                (first, _), (last, at) = living[0], living[-1]
                if type(first) is not type(last) or steps[0] != steps[-1]:
                    self._doubled[id(optimizer)] = []
                elif steps[0] > SEVERAL:
                    entry = {"how": "doubled", "text": type(last).__name__, "frames": setter(at)}
                    self._doubled.setdefault(id(optimizer), [entry])

    def low(self) -> List[Dict[str, Any]]:
        """Where a scheduler was set that kept the learning rate near 0.

        An optimizer that is built with a rate of 1 leaves the rate to its scheduler.
        """
        found = []
        for each, most in self._most.items():
            first = self._first.get(each)
            at = self._in_use.get(each) or self._schedulers[each][-1][1]
            if first and first != 1 and 0 < most < LOW * first:
                found.append({"how": "low", "text": f"{most:.2g}", "frames": setter(at)})
        return found

    def doubled(self) -> List[Dict[str, Any]]:
        """Where a scheduler was given an optimizer that has one, while another has none."""
        without = self._first.keys() - self._schedulers.keys()
        return [entry for found in self._doubled.values() for entry in found] if without else []

    def plateaus(self) -> List[Dict[str, Any]]:
        """Where a ReduceLROnPlateau was set that was given a value which only got worse."""
        found = [fact for each in self._plateaus for fact in each.facts()]
        return list({str(fact["frames"]): fact for fact in found}.values())

    def scheduled(self, optimizer: Any) -> List[Dict[str, Any]]:
        """Where the last scheduler of ``optimizer`` was built; empty if it has none."""
        known = self._schedulers.get(id(optimizer))
        return list(known[-1][1]) if known else []

    def _scheduled(self, optimizer: Any) -> bool:
        """Whether a scheduler of ``optimizer`` was stepped: it counts its own start as a step."""
        return any(getattr(each, "_step_count", 2) > 1 for each, _ in self._living(optimizer))

    def _living(self, optimizer: Any) -> List[Any]:
        """The schedulers of ``optimizer`` that are there, each with where it was built."""
        known = [(found(), at) for found, at in self._schedulers.get(id(optimizer), [])]
        return [(scheduler, at) for scheduler, at in known if scheduler is not None]

    def factor(self, optimizer: Any, rates: List[Any]) -> Dict[str, Any]:
        """What LambdaLR multiplied the learning rate by, if its function seems to return a rate."""
        first = self._first.get(id(optimizer)) or 0.0
        numbers = [rate for rate in rates if isinstance(rate, float)]
        for scheduler, at in self._living(optimizer):
            if type(scheduler).__name__ == "LambdaLR" and numbers and first:
                most = max(numbers) / first
                if most <= first:
                    return {"factor": most, "rate_frames": at}
        return {}

    def facts(self, optimizer: Any, built_at: List[Dict[str, Any]]) -> Dict[str, Any]:
        """What set the learning rate of ``optimizer`` to 0."""
        if self._first.get(id(optimizer)) == 0:
            return {"rate_from": "constructor", **said(built_at)}
        if id(optimizer) in self._loaded:
            return {"rate_from": "loaded", "rate_frames": self._loaded[id(optimizer)]}
        for scheduler, at in reversed(self._living(optimizer)):
            given = any(map(float, getattr(scheduler, "base_lrs", [1.0])))
            if given and not any(map(float, getattr(scheduler, "_last_lr", [1.0]))):
                name = type(scheduler).__name__
                found = [*at[:1], *set_by(at), *at[1:]]
                facts = {"rate_from": "scheduler", "rate": name, "rate_frames": found}
                facts["zero_at"] = self._zeros.get(id(scheduler), [])[:1]
                return {**facts, "scheduled": self._scheduled(optimizer)}
        written = [[at] for _, at in source.writes("lr", "param_groups")]
        made = [] if written else source.called(SCHEDULER.search)
        if made:
            name, at = made[-1]
            return {"rate_from": "scheduler", "rate": name, "rate_frames": [at]}
        return {"rate_from": "assignment", "rate_frames": written[-1] if written else []}


def of_group(built_at: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Where the script gives a learning rate of 0 to a group of an optimizer, else to none."""
    zero = source.said(RATE.search, lambda value: value == 0)
    return {"rate": zero[0][0], "rate_frames": [zero[0][1], *built_at]} if zero else {}


def said(built_at: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Where the script gives a learning rate of 0 or a function; else where it gives any."""
    zero = source.said(RATE.search, lambda value: value == 0)
    functions = [
        (f"{name}={ast.unparse(value)}", place)
        for name, value, place in source.given(RATE.search)
        if isinstance(value, ast.Lambda) and hasattr(ast, "unparse")  # not in Python 3.8
    ]
    told = (zero or functions)[:1]
    text = told[0][0] if told else ""
    places = [at for _, at in told] or [each for _, _, each in source.given(RATE.search)[:1]]
    return {"rate": text, "rate_frames": [*built_at[:1], *places, *built_at[1:]]}


def set_by(at: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The argument that sets a scheduler which a library built ``at`` these frames."""
    user = of_user(at)
    own = [place for _, place in source.called(SCHEDULER.search)]
    if user in (None, *at[:1], *own):
        return []
    return [place for _, _, place in source.given(SCHEDULER.search)[:1]]


def setter(at: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The user's line that set a scheduler which was built ``at`` these frames."""
    return [*set_by(at), *(frame for frame in at if frame["user"])][:1]


@contextmanager
def zeros() -> Iterator[List[Dict[str, Any]]]:
    """Where functions of the user that a library calls return 0, or a list of zeros."""
    found: List[Dict[str, Any]] = []

    def returned(frame: Any, event: str, value: Any) -> None:
        values = value if isinstance(value, list) else [value]
        if (
            event == "return"
            and mine(frame.f_code.co_filename)
            and frame.f_back is not None
            and not mine(frame.f_back.f_code.co_filename)
            and values
            and all(type(each) in {int, float} and each == 0 for each in values)
        ):
            found.append({**place(frame.f_code), "line": frame.f_lineno})

    if sys.getprofile() is not None:  # the script is profiled
        yield found
        return
    sys.setprofile(returned)
    try:
        yield found
    finally:
        if sys.getprofile() is returned:
            sys.setprofile(None)
