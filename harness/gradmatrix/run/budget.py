"""A run with a budget: stacks that would teach most come first, until the budget is used.

First come stacks with releases that no record has met, then those with pairs of releases that never
met, then the ones whose records are oldest.
"""

from __future__ import annotations

import datetime as dt
import shutil
import time
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from gradmatrix.core.text import counted, listed
from gradmatrix.run.plan import Action
from gradmatrix.run.project import of_locks
from gradmatrix.stacks.generate import names_of
from gradmatrix.stacks.pairwise import pins_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gradmatrix.core.model import Stack
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.project import Project

NEVER = dt.datetime.min.replace(tzinfo=dt.UTC)
GB = 10**9


@dataclass(frozen=True)
class Known:
    """What the records say about a stack."""

    name: str
    releases: frozenset[tuple[str, str]]
    """The packages that it asks for, at the versions that are locked or pinned."""
    recorded_at: dt.datetime | None = None
    """When its oldest judged cell was recorded under its lock; None if none was."""

    @property
    def pairs(self) -> frozenset[tuple[tuple[str, str], ...]]:
        """Every two of its releases."""
        return frozenset(combinations(sorted(self.releases), 2))


def by_lesson(candidates: Iterable[Known], others: Iterable[Known] = ()) -> list[str]:
    """The names of ``candidates``, those first that would teach most after the ones before.

    Args:
        candidates: the stacks that may run
        others: more stacks, of which those with records count as met
    """
    left = list(candidates)
    met = [each for each in (*left, *others) if each.recorded_at is not None]
    releases = {release for each in met for release in each.releases}
    pairs = {pair for each in met for pair in each.pairs}
    ordered = []
    while left:
        best = min(
            left,
            key=lambda each: (
                -len(each.releases - releases),
                -len(each.pairs - pairs),
                each.recorded_at or NEVER,
                each.name,
            ),
        )
        left.remove(best)
        ordered.append(best.name)
        releases |= best.releases
        pairs |= best.pairs
    return ordered


def ordered(project: Project, stacks: Sequence[Stack]) -> list[Stack]:
    """``stacks`` in the order in which a budget is spent on them."""
    chosen = {stack.name: stack for stack in stacks}
    known = [known_of(project, stack) for stack in project.matrix.stacks]
    names = by_lesson(
        (each for each in known if each.name in chosen),
        (each for each in known if each.name not in chosen),
    )
    return [chosen[name] for name in names]


def known_of(project: Project, stack: Stack) -> Known:
    """What the lock and the records say about ``stack``."""
    lock = project.current_lock(stack)
    names = names_of(stack.requirements)
    pins = pins_of(stack, names)
    if lock is not None and lock.failure is None:
        pins = {name: version for name in names if (version := lock.version(name)) is not None}
    records = project.store.of_stack(stack.name).values()
    dates = [
        record.recorded_at
        for record in of_locks(records, [lock] if lock else [])
        if record.passed is not None
    ]
    return Known(stack.name, frozenset(pins.items()), min(dates, default=None))


@dataclass(frozen=True)
class Budget:
    """What a run may use; None is no limit."""

    cells: int | None = None
    time_s: float | None = None
    disk_bytes: int | None = None


@dataclass
class Meter:
    """What a run has used of its budget. A stack that was begun is finished."""

    budget: Budget
    free_bytes: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    taken: int = 0
    """Stacks with cells to run that were taken."""
    cells: int = 0
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began, self.free = self.clock(), self.free_bytes()

    @classmethod
    def of(cls, budget: Budget, project: Project) -> Meter:
        """A meter of this machine, which begins now."""
        return cls(budget, lambda: shutil.disk_usage(project.root).free)

    def takes(self, stack: str, cells: Iterable[Planned]) -> bool:
        """Whether there is room for ``stack``, which is then counted.

        A stack that runs no cell is always taken.
        """
        count = sum(cell.action is Action.RUN for cell in cells)
        if count and not self.has_room(count, of=stack):
            return False
        self.taken += bool(count)
        self.cells += count
        return True

    def has_room(self, cells: int, *, of: str) -> bool:
        """Whether so many cells of a stack fit, if it takes the time and disk of those before."""
        share = 1 + 1 / self.taken if self.taken else 1
        limits = (
            (self.budget.cells, self.cells + cells),
            (self.budget.time_s, self.used_s * share),
            (self.budget.disk_bytes, self.used_bytes * share),
        )
        fits = all(limit is None or used <= limit for limit, used in limits)
        if not fits:
            self.left_out.append(of)
        return fits

    @property
    def used_s(self) -> float:
        """The time since the run began."""
        return self.clock() - self.began

    @property
    def used_bytes(self) -> int:
        """By how much the free disk space has shrunk, whoever used it."""
        return max(0, self.free - self.free_bytes())

    def __str__(self) -> str:
        used = (
            counted(self.cells, "cell"),
            f"{self.used_s / 60:.1f} minutes",
            f"{self.used_bytes / GB:.1f} GB of disk",
        )
        text = f"budget: {counted(self.taken, 'stack')} ran: {listed(used)}"
        return f"{text}; {counted(len(self.left_out), 'stack')} left" if self.left_out else text
