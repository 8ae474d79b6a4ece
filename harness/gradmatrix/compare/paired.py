"""Speed or memory as a yes or no: a set of packages is like the bad side or like the good one.

It is measured beside the good side, as ``upgrade`` measures two sides. The answer is on which side
of the middle it lies, and there is none if the interval holds the middle.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.compare.upgrade import Timing, folder_of, measure
from gradmatrix.core.files import write_atomically
from gradmatrix.measure.statistics import Measured

if TYPE_CHECKING:
    from gradmatrix.compare.upgrade import SideRun
    from gradmatrix.measure.statistics import Key, Ratio


LEAST = 0.01
"""A smaller difference of the two sides is not looked for."""


class Metric(StrEnum):
    """What is measured."""

    STEPS = "steps_per_s"
    MEMORY = "peak_memory"


@dataclass
class Paired:
    """Measures sets of packages beside the good side."""

    metric: Metric
    budget_s: float
    """The time for a set of packages, without the start of servers."""
    middle: float | None = None
    """Between the two sides, as a factor of the good one; None until the bad side was measured."""

    def ratio(self, good: SideRun, other: SideRun, key: Key) -> Ratio | None:
        """The other side over the good one; None if it could not be measured.

        A measurement is kept, and used again with the same locks and budget.
        """
        folder = folder_of(good.project) / "measured"
        words = f"{good.name} {other.name} {key} {self.budget_s:g}"
        path = folder / f"{hashlib.sha256(words.encode()).hexdigest()[:16]}.json"
        if path.exists():
            measured = msgspec.json.decode(path.read_bytes(), type=Measured)
        else:
            timing = Timing(budget_s=self.budget_s)
            measured = measure(good.project, good, other, [key], timing)[key]
            write_atomically(path, msgspec.json.encode(measured))
        return measured.memory if self.metric is Metric.MEMORY else measured.step_time

    def set_middle(self, bad: Ratio) -> None:
        """Put the middle between the good side and the bad one, if they differ clearly.

        That is so if the interval is beyond the middle. The margin of an upgrade is not asked: 3 %
        of memory may be much of what a small model keeps.
        """
        self.middle = math.sqrt(bad.ratio)
        if self.is_open(bad) or abs(bad.ratio - 1) < LEAST:
            self.middle = None

    def is_open(self, ratio: Ratio) -> bool:
        """Whether the interval holds the middle."""
        return self.middle is not None and ratio.low <= self.middle <= ratio.high

    def is_beyond(self, ratio: Ratio) -> bool:
        """Whether it lies on the bad side of the middle; never if the two sides do not differ."""
        return self.middle is not None and (ratio.ratio > self.middle) is (self.middle > 1)

    def words(self, ratio: Ratio) -> str:
        """A ratio for people. Steps per second are the inverse of what a step takes."""
        factors = ratio.ratio, ratio.low, ratio.high
        if self.metric is Metric.STEPS:
            factors = 1 / ratio.ratio, 1 / ratio.high, 1 / ratio.low
        return "{}: {:.3g} times that of the good side ({:.3g} to {:.3g})".format(
            self.metric, *factors
        )
