"""Comparisons whose answer is known -> how often each tool was right, against the bounds of the performance contract.

A trial is one comparison of a workload with itself (0 per cent), or with itself slowed by a known amount.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import stats

from harness.observation import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OURS = "gradmatrix"
TIME, MEMORY = "step time", "peak memory"
"""The two verdicts of one comparison of ours."""
SLOWER, FASTER, NOTHING, FAILED = "slower", "faster", "nothing", "failed"
"""What is told of the candidate; ours says ``same`` or ``inconclusive`` where other tools say nothing."""
MORE, LESS = {SLOWER, "hungrier"}, {FASTER, "leaner"}
FALSE_AT_MOST = 0.01
"""Share of the comparisons of equal sides in which they may be called different."""
FOUND_AT_LEAST = {5.0: 0.95, 2.0: 0.5}
"""Per cent of slowdown -> the share of runs that must call it slower in time."""


class Trial(Frozen, frozen=True, kw_only=True):
    """One comparison by one tool."""

    tool: str
    per_cent: float
    """What the candidate was slowed by; 0 for two equal sides."""
    number: int
    """Of the trials of this tool with this slowdown, from 0 on."""
    busy: bool
    """Another core was kept busy meanwhile."""
    verdicts: dict[str, str]
    """What is told of the candidate, by each reading of what the tool says."""
    seconds: float
    """Of both sides together, from the start of the first process on."""
    limit_s: float
    """What it was allowed."""
    stack: str
    code: str = ""
    """Digest of the code that measured it; empty in old files."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    detail: str = ""

    @property
    def late(self) -> bool:
        """It took longer than it was allowed; other tools do not know a limit."""
        return self.tool == OURS and self.seconds > self.limit_s


@dataclass(frozen=True)
class Tally:
    """The trials of one tool, read in one way, with one slowdown; by the state of the other core, or of both."""

    tool: str
    reading: str
    per_cent: float
    busy: bool | None
    verdicts: tuple[str, ...]
    late: int
    """Said slower, but not in time."""
    half_width: float | None
    """Median, of the logarithm's interval; None where the tool has none."""
    seconds: float
    """Median."""

    @property
    def of(self) -> int:
        """How many trials."""
        return len(self.verdicts)

    @property
    def right(self) -> int:
        """Called slower, in time; where the sides are equal: called different."""
        return self.more - self.late if self.per_cent else self.more + self.less

    @property
    def more(self) -> int:
        """How many say that the candidate takes more."""
        return sum(each in MORE for each in self.verdicts)

    @property
    def less(self) -> int:
        """How many say that it takes less."""
        return sum(each in LESS for each in self.verdicts)

    @property
    def failed(self) -> int:
        """How many could not be measured."""
        return self.verdicts.count(FAILED)

    @property
    def interval(self) -> tuple[float, float]:
        """The share's 95 % interval of Clopper and Pearson, as if no two trials shared servers."""
        found = stats.binomtest(self.right, self.of).proportion_ci(0.95, "exact")
        return float(found.low), float(found.high)

    @property
    def met(self) -> bool | None:
        """Whether the bound is kept; None where there is none: for parts of the trials, memory, and other tools."""
        if (self.tool, self.reading, self.busy) != (OURS, TIME, None):
            return None
        share = self.right / self.of
        return share >= FOUND_AT_LEAST.get(self.per_cent, 0.0) if self.per_cent else share <= FALSE_AT_MOST

    @property
    def bound(self) -> str:
        """The bound in words; empty where there is none."""
        if self.met is None:
            return ""
        return f">= {FOUND_AT_LEAST.get(self.per_cent, 0.0):.0%}" if self.per_cent else f"<= {FALSE_AT_MOST:.0%}"


def tallies(trials: Iterable[Trial]) -> list[Tally]:
    """By slowdown, tool and reading: all trials, then those with the other core idle and those with it busy."""
    known = list(trials)
    kinds = dict.fromkeys(
        (each.per_cent, each.tool, reading)
        for each in sorted(known, key=lambda t: (t.per_cent, t.tool != OURS, t.tool))
        for reading in each.verdicts
        if reading != MEMORY or not each.per_cent  # what slows it takes no memory
    )
    found = []
    for per_cent, tool, reading in kinds:
        chosen = [t for t in known if (t.per_cent, t.tool) == (per_cent, tool) and reading in t.verdicts]
        states = sorted({each.busy for each in chosen})
        found.append(_tally(chosen, reading, busy=None))
        if len(states) > 1 and (tool, reading) == (OURS, TIME):
            found += [_tally([each for each in chosen if each.busy is busy], reading, busy=busy) for busy in states]
    return found


def _tally(trials: Sequence[Trial], reading: str, *, busy: bool | None) -> Tally:
    """Of trials that have a slowdown and a tool in common, of which there is at least one."""
    first = trials[0]
    widths = [(t.high - t.low) / 2 for t in trials if t.high is not None and t.low is not None]
    return Tally(
        tool=first.tool,
        reading=reading,
        per_cent=first.per_cent,
        busy=busy,
        verdicts=tuple(each.verdicts[reading] for each in trials),
        late=sum(each.verdicts[reading] == SLOWER and each.late for each in trials),
        half_width=statistics.median(widths) if widths and reading == TIME else None,
        seconds=statistics.median(each.seconds for each in trials),
    )


def shortcomings(found: Iterable[Tally]) -> list[str]:
    """The bounds that are missed, in words."""
    return [
        f"{each.right} of {each.of} slowed by {each.per_cent:g} % were called slower in time: wanted {each.bound}"
        if each.per_cent
        else f"{each.right} of {each.of} pairs of equal sides were called different: wanted {each.bound}"
        for each in found
        if each.met is False
    ]
