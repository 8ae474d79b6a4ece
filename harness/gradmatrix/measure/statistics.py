"""From step times of two sides to a ratio with an interval, a noise floor and a verdict.

All of it is on logarithms, so that a ratio and its inverse are treated alike. A generation is the
time in which every server of both sides has one script running: an array of shape (rounds, servers,
blocks), the baseline's servers first. A set of servers is alive at once, and the generations that
they forked belong to it. In a round every server runs two blocks, in an order that is the same
backwards, so that a steady drift of the machine cancels.

* The effect of a process is the trimmed mean of its blocks, each relative to the median of its
  round. The effect of a server is the trimmed mean over its processes, one per generation, because
  some generations are noisy. All servers of all sets count alike.
* The server is the unit of replication: its processes and blocks share its luck, so they are no
  independent samples. The interval is that of Welch ("The generalization of Student's problem",
  1947) for the means of the servers: sides may differ in noise. A bootstrap over six servers has
  the same standard error, with noise of its own. No server is left out or bounded as an outlier,
  although now and then all processes of a server were 10 % slower or more: that is how some stacks
  behave. With bounded outliers, equal sides with two kinds of servers were called different up to
  five times as often as asked.
* Several looks share the error probability as Lan and DeMets describe ("Discrete sequential
  boundaries for clinical trials", 1983), in proportion to the square of the time as Kim and DeMets
  do ("Design and analysis of group sequential tests based on the type I error spending rate
  function", 1987). Early looks get little of it, because only a large difference is clear then. The
  interval of a look has what that look may spend, so the intervals of all looks hold together
  (Jennison and Turnbull, "Interim analyses: the repeated confidence interval approach", 1989).
* A ratio is reported as it was when measuring stopped. Where it stopped because the verdict was
  clear, the ratio is a little too far from 1 on average (Whitehead, "On the bias of maximum
  likelihood estimation following a sequential test", 1986). Its interval holds nevertheless.
* Same is decided by two one-sided tests: the whole interval lies within the margin (Schuirmann, "A
  comparison of the two one-sided tests procedure and the power approach", 1987). It takes twelve
  servers of each side: of six, a mode that one in three servers of the candidate has is absent by
  chance in 9 of 100 comparisons, of twelve in fewer than 1.
* Many comparisons share the error probability evenly (Bonferroni): all intervals of a report hold
  together.
* Warm-up ends where the marginal standard error of the rest is smallest: MSER (White, "An effective
  truncation heuristic for bias reduction in simulation output", 1997).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy import stats

from gradmatrix.core.observation import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


ALPHA = 0.01
"""The probability of calling two equal sides different, over all looks."""
TRIMMED = 0.2
"""The share of a server's blocks that is cut off at either end: other processes make some blocks
long."""
TRIMMED_GENERATIONS = 0.25
"""The share of a server's processes that is cut off at either end; of three or more at least one.
"""
FEWEST_FOR_SAME = 12
"""Servers of a side, before their step times may be called the same."""
SHORTEST = 8
"""Fewer step times say nothing about warm-up: of up to six, any would seem to end it in their first
half."""
SMALLEST = 1e-5
"""No standard error is smaller than this: a clock cannot measure smaller differences."""


class Key(NamedTuple):
    """A cell without its stack: what two sides have in common."""

    scenario: str
    variant: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class Size(StrEnum):
    """The verdict on a ratio of candidate over baseline."""

    MORE = "more"
    """The whole interval lies beyond the margin, above 1."""
    PROBABLY_MORE = "probably more"
    """The whole interval lies above 1, but some of it within the margin."""
    SAME = "same"
    """The whole interval lies within the margin."""
    PROBABLY_LESS = "probably less"
    LESS = "less"
    INCONCLUSIVE = "inconclusive"
    """The budget was spent before any of these was known."""

    @property
    def is_clear(self) -> bool:
        """Whether more measuring would not change it."""
        return self in (Size.MORE, Size.SAME, Size.LESS)

    @property
    def is_open(self) -> bool:
        """Whether the candidate may or may not need more."""
        return self in (Size.INCONCLUSIVE, Size.PROBABLY_MORE)


TIME_WORDS = {
    Size.MORE: "slower",
    Size.PROBABLY_MORE: "probably slower",
    Size.SAME: "same",
    Size.PROBABLY_LESS: "probably faster",
    Size.LESS: "faster",
    Size.INCONCLUSIVE: "inconclusive",
}
MEMORY_WORDS = {
    Size.MORE: "hungrier",
    Size.PROBABLY_MORE: "probably hungrier",
    Size.SAME: "same",
    Size.PROBABLY_LESS: "probably leaner",
    Size.LESS: "leaner",
    Size.INCONCLUSIVE: "inconclusive",
}


class Ratio(Frozen, frozen=True, kw_only=True):
    """Candidate over baseline of one quantity, as factors: 1.05 is five per cent more."""

    ratio: float
    """As it was when measuring stopped. Where that was early, because the verdict was clear, it is
    a little too far from 1 on average."""
    low: float
    high: float
    """Ends of the confidence interval."""
    confidence: float
    """The probability that all intervals of the run hold together, 0.99 or more, after what early
    looks spent."""
    among: int = 1
    """How many comparisons of the run share the error probability; each interval is wider for it.
    """
    p: float
    """The p-value of a two-sided test that the ratio is 1, before any correction for many
    comparisons."""
    floor: float
    """The largest factor, 1 or more, between two halves of the baseline's own servers in the same
    run (A/A), computed in the same way. Servers that replaced each other are in the same half."""
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
    """None if it could not be measured; ``notices`` say why."""
    memory: Ratio | None
    servers: int
    """Servers per side, including those that replaced others. If none can fork: the places of
    servers."""
    processes: int
    """Processes that they forked, per side; each ran the whole script."""
    blocks: int
    """Timed blocks per side."""
    steps: int
    """Optimizer steps of a block."""
    spent_s: float
    """Seconds of both sides together, including warm-up."""
    stopped: Literal["clear", "budget", "failed"]
    notices: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Which cell it is."""
        return Key(self.scenario, self.variant, self.device)

    @property
    def enough_s(self) -> float:
        """The seconds of measuring that would probably have made the step time clear.

        Intervals become narrower with the square root of the time. A ratio at the margin would
        never be clear: it counts as a quarter of the margin away from it.
        """
        if self.step_time is None or self.step_time.verdict.is_clear:
            return self.spent_s
        margin = math.log1p(self.step_time.margin)
        half = math.log(self.step_time.high / self.step_time.low) / 2
        distance = abs(abs(math.log(self.step_time.ratio)) - margin)
        needed = half / max(distance, margin / 4, SMALLEST)
        return self.spent_s * max(2.0, needed**2)


@dataclass(frozen=True)
class Estimate:
    """The difference of two sides' logarithms: candidate minus baseline."""

    difference: float
    error: float
    """Its standard error."""
    freedom: float
    """Degrees of freedom: from those of one side to those of both."""
    floor: float
    """The largest difference between two halves of the baseline's servers; servers that replaced
    each other are in the same half."""
    baseline: float
    candidate: float
    """Medians over the servers, in the unit that was measured."""
    servers: int
    """Of each side."""

    @property
    def p(self) -> float:
        """The p-value of a two-sided test that there is no difference."""
        return float(2 * stats.t.sf(abs(self.difference) / self.error, self.freedom))

    def half_width(self, alpha: float) -> float:
        """Half the width of the interval with error probability ``alpha``."""
        return float(stats.t.isf(alpha / 2, self.freedom)) * self.error


def of_blocks(sets: Sequence[Sequence[Floats]]) -> Estimate:
    """The estimate from the blocks of one or more generations of each set of servers."""
    logs = [[np.log(each) for each in generations] for generations in sets]
    effects = _by_side([_of_generations([_effects(each) for each in one]) for one in logs])
    levels = _by_side(
        [np.exp(np.median([np.median(each, axis=(0, 2)) for each in one], axis=0)) for one in logs]
    )
    return _estimate(effects, levels, len(sets))


def of_servers(sets: Sequence[Floats]) -> Estimate:
    """The estimate from one value per process: peak memory.

    ``sets`` has an array of shape (generations, servers) for each set of servers.
    """
    logs = [np.log(values) for values in sets]
    effects = _by_side(
        [(each - np.median(each, axis=1, keepdims=True)).mean(axis=0) for each in logs]
    )
    levels = _by_side([np.median(values, axis=0) for values in sets])
    return _estimate(effects, levels, len(sets))


def _effects(logs: Floats) -> Floats:
    """From shape (rounds, servers, blocks) to (servers,).

    Each process is seen relative to all that ran at the same time.
    """
    residuals = logs - np.median(logs, axis=(1, 2), keepdims=True)
    blocks = residuals.transpose(0, 2, 1).reshape(-1, logs.shape[1])
    return _trimmed(blocks, int(TRIMMED * len(blocks)))


def _of_generations(effects: Sequence[Floats]) -> Floats:
    """From the effects of each generation to those of the servers."""
    count = len(effects)
    fewest = 1 if count > 2 else 0  # noqa: PLR2004  (at least one is left)
    cut = max(int(TRIMMED_GENERATIONS * count), fewest)
    return _trimmed(np.stack(effects), cut)


def _trimmed(values: Floats, cut: int) -> Floats:
    """The means along the first axis without so many of the smallest and of the largest values."""
    return np.asarray(np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0))


def _by_side(sets: Sequence[Floats]) -> Floats:
    """From one value per server of each set to those of all sets, the baseline's first."""
    return np.concatenate([each.reshape(2, -1) for each in sets], axis=1).ravel()


def _estimate(effects: Floats, levels: Floats, sets: int) -> Estimate:
    """The estimate from the servers of both sides.

    Args:
        effects: of the servers, the baseline's first.
        levels: the servers' levels in the unit that was measured, the baseline's first.
        sets: how many sets of servers there were. For the noise floor, servers in the same place of
            each set belong together.
    """
    baseline, candidate = effects.reshape(2, -1)
    count = baseline.size
    squares = [max(float(each.var(ddof=1)), SMALLEST**2) / count for each in (baseline, candidate)]
    medians = np.median(levels.reshape(2, -1), axis=1)
    return Estimate(
        difference=float(candidate.mean() - baseline.mean()),
        error=max(math.sqrt(sum(squares)), SMALLEST),
        freedom=sum(squares) ** 2 / sum(each**2 / (count - 1) for each in squares),
        floor=_floor(baseline.reshape(sets, -1).mean(axis=0)),
        baseline=float(medians[0]),
        candidate=float(medians[1]),
        servers=count,
    )


def _floor(effects: Floats) -> float:
    """The largest difference between two equal parts of the places of the baseline."""
    every = set(range(effects.size))
    return max(
        abs(float(effects[list(part)].mean() - effects[list(every - set(part))].mean()))
        for part in combinations(every, effects.size // 2)
    )


def ratio(
    estimate: Estimate,
    *,
    alpha: float,
    margin: float,
    among: int = 1,
    fewest: int = FEWEST_FOR_SAME,
) -> Ratio:
    """The estimate as a ratio with its interval and verdict.

    Args:
        estimate: the difference of the two sides.
        alpha: the error probability that this look may spend.
        margin: the fraction that counts as the same.
        among: how many comparisons share the error probability.
        fewest: servers of each side that it takes to call them the same.
    """
    half = estimate.half_width(alpha / among)
    found = verdict(estimate, half, math.log1p(margin))
    if found is Size.SAME and estimate.servers < fewest:
        found = Size.INCONCLUSIVE
    return Ratio(
        ratio=math.exp(estimate.difference),
        low=math.exp(estimate.difference - half),
        high=math.exp(estimate.difference + half),
        confidence=1 - alpha,
        among=among,
        p=estimate.p,
        floor=math.exp(estimate.floor),
        margin=margin,
        verdict=found,
        baseline=estimate.baseline,
        candidate=estimate.candidate,
    )


def verdict(estimate: Estimate, half: float, margin: float) -> Size:
    """The verdict on a difference, from half the width of its interval.

    Same: the whole interval is within the margin. More or less: all of it is beyond the margin.
    Probably more or less: all of it is on one side of no difference. A difference that is not
    larger than the noise floor is inconclusive.
    """
    difference = abs(estimate.difference)
    if difference + half <= margin:
        return Size.SAME
    if difference <= max(half, estimate.floor):
        return Size.INCONCLUSIVE
    is_more = estimate.difference > 0
    if difference - half > margin:
        return Size.MORE if is_more else Size.LESS
    return Size.PROBABLY_MORE if is_more else Size.PROBABLY_LESS


def spent(fraction: float, alpha: float = ALPHA) -> float:
    """How much of ``alpha`` may be spent when ``fraction`` of the budget is gone."""
    return alpha * min(max(fraction, 0.0), 1.0) ** 2


def steady_from(times: Sequence[float]) -> int | None:
    """The index of the first of ``times`` that is not warm-up (MSER).

    None if warm-up does not end in the first half.
    """
    values = np.asarray(times, dtype=float)
    if values.size < SHORTEST:
        return None
    tails = [values[start:] for start in range(values.size - 1)]
    errors = [float(np.var(each)) / each.size for each in tails]
    found = int(np.argmin(errors[: max(1, values.size * 3 // 4)]))
    return found if found <= values.size // 2 else None
