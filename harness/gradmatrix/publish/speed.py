"""Speeds of different runs, with the speed of the machine taken out.

A cell's rate is taken over the time in which it had a core, and multiplied by how much slower the
reference beside it ran than usual. Its band comes from the quartiles of the steps, and from the
range of nine tenths of the reference.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.observation import Frozen, rate_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradmatrix.core.model import Record

NEAR = 5
"""The reference of a cell is also that of so many cells before and after it in the same run: ten
samples beside one cell say too little."""
SHARES = 20
"""The fastest and the slowest twentieth of the reference are left out. How fast the machine was
while a cell ran is not known better: it can become twice as slow within a second."""
SUPPORT = 2
"""How many stacks on each side must show a change. After the last stack there is one only."""


class Band(NamedTuple):
    """A value with the range in which it may be."""

    low: float
    median: float
    high: float

    def is_apart(self, other: Band) -> bool:
        """Whether the two ranges do not meet."""
        return self.high < other.low or other.high < self.low

    def times(self, other: Band, factor: float = 1.0) -> Band:
        """Return the product of two positive values, and of a factor."""
        return Band(
            self.low * other.low * factor,
            self.median * other.median * factor,
            self.high * other.high * factor,
        )


class Speed(Frozen, frozen=True):
    """How fast a cell ran, and how fast its machine was."""

    rate: Band
    """Steps per second of the time in which the cell had a core."""
    reference_s: Band
    processor: str | None
    program: str
    """Of the reference."""

    @property
    def machine(self) -> str:
        """What ran the cell and the reference. Speeds of others are never compared."""
        return f"{self.processor} {self.program}"


class Runs(Frozen, frozen=True):
    """What the runs of a cell measured with the lock that its stack has now."""

    steps_per_s: tuple[float, ...]
    """The median of each run, the oldest first."""
    speed: Speed | None
    """Of the newest run beside which a reference ran."""
    start_memory_bytes: int | None = None
    """What the process of the published record took before the cell began."""


def speeds(records: Iterable[Record]) -> Iterator[tuple[Record, Speed]]:
    """Yield the records of a stack that have a speed and a reference, run by run."""
    timed = sorted(
        (each for each in records if each.reference), key=attrgetter("run", "recorded_at")
    )
    for _, run in groupby(timed, attrgetter("run")):
        beside = list(run)
        for place, record in enumerate(beside):
            found = speed(record, beside[max(0, place - NEAR) : place + NEAR + 1])
            if found is not None:
                yield record, found


def speed(record: Record, near: Sequence[Record]) -> Speed | None:
    """Return the speed of a cell; ``near`` are the records around it and itself."""
    reference, seen = record.reference, record.observation
    if record.steps_per_s is None or not reference or seen is None or not seen.waited_s:
        return None
    alike = [each.reference for each in near if each.reference]
    samples = [
        each
        for one in alike
        if one.program == reference.program
        for each in (*one.before_s, *one.after_s)
    ]
    pairs = zip(seen.step_times_s, seen.waited_s, strict=True)
    rate = rate_of(tuple(step_s - waited_s for step_s, waited_s in pairs))
    if rate is None:
        return None
    low, *_, high = statistics.quantiles(samples, n=SHARES, method="inclusive")
    return Speed(
        rate=Band(rate.low, rate.median, rate.high),
        reference_s=Band(low, statistics.median(samples), high),
        processor=seen.environment.get("cpu"),
        program=reference.program,
    )


def usual_s(found: Iterable[Speed | None]) -> dict[str, float]:
    """Return the median time of the reference on each kind of machine."""
    times: dict[str, list[float]] = defaultdict(list)
    for each in filter(None, found):
        times[each.machine].append(each.reference_s.median)
    return {machine: statistics.median(times_s) for machine, times_s in times.items()}


def corrected(speed: Speed, usual_s: Mapping[str, float]) -> Band:
    """Return the rate that the cell would have had on its machine at its usual speed."""
    return speed.rate.times(speed.reference_s, 1 / usual_s[speed.machine])


def changes(bands: Sequence[Band]) -> Iterator[tuple[int, int]]:
    """Yield the neighbouring places between which a value changed.

    The bands of the ``SUPPORT`` places before must be apart from those of the places after.
    """
    for before, after in pairwise(range(len(bands))):
        sides = bands[max(0, after - SUPPORT) : after], bands[after : after + SUPPORT]
        if all(one.is_apart(other) for one in sides[0] for other in sides[1]) and same_side(*sides):
            yield before, after


def same_side(before: Sequence[Band], after: Sequence[Band]) -> bool:
    """Whether all of ``after`` are above all of ``before``, or all below."""
    return len({one.median < other.median for one in before for other in after}) == 1
