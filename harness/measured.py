"""The words of a measured comparison: ratios of candidate over baseline, with intervals and verdicts."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

from harness.observation import Frozen


class Key(NamedTuple):
    """A cell without its stack: what two sides have in common."""

    scenario: str
    variant: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class Size(StrEnum):
    """What is said of a ratio of candidate over baseline."""

    MORE = "more"
    LESS = "less"
    SAME = "same"
    """The whole interval lies within the margin."""
    INCONCLUSIVE = "inconclusive"
    """The budget was spent before the interval left the margin or fitted into it."""


TIME_WORDS = {Size.MORE: "slower", Size.LESS: "faster", Size.SAME: "same", Size.INCONCLUSIVE: "inconclusive"}
MEMORY_WORDS = {Size.MORE: "hungrier", Size.LESS: "leaner", Size.SAME: "same", Size.INCONCLUSIVE: "inconclusive"}


class Ratio(Frozen, frozen=True, kw_only=True):
    """Candidate over baseline of one quantity, as factors: 1.05 is five per cent more."""

    ratio: float
    low: float
    high: float
    """Ends of the confidence interval."""
    confidence: float
    """That all intervals of the run hold together, after what was spent on looking early: 0.99 and more."""
    among: int = 1
    """How many comparisons of the run share the error probability: each one's interval is the wider for it."""
    p: float
    """Of a two-sided test that the ratio is 1, before any correction for many comparisons."""
    floor: float
    """The largest factor, 1 or more, between halves of the baseline's own servers in the same run (A/A), by the same
    reckoning; servers that took each other's place are in the same half."""
    margin: float
    """What counts as the same: 0.01 is one per cent."""
    verdict: Size
    baseline: float
    """Median over the baseline's servers: seconds per optimizer step, or bytes of peak memory."""
    candidate: float


class Measured(Frozen, frozen=True, kw_only=True):
    """One cell that trains on both sides, measured on both at once."""

    scenario: str
    variant: str
    device: str
    step_time: Ratio | None
    """None where it could not be measured; ``notices`` say why."""
    memory: Ratio | None
    servers: int
    """Servers per side, those that took another's place too; where none can fork, the places of servers."""
    processes: int
    """That they forked, per side: each ran the script anew."""
    blocks: int
    """Timed blocks per side."""
    steps: int
    """Optimizer steps of a block."""
    spent_s: float
    """Seconds of both sides together, warm-up included."""
    stopped: Literal["clear", "budget", "failed"]
    notices: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Which cell it is."""
        return Key(self.scenario, self.variant, self.device)
