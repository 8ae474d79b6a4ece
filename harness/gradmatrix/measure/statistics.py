"""From step times of two sides to a ratio with an interval, a noise floor and a verdict.

All of it is on logarithms, so that a ratio and its inverse are treated alike. A generation is the
time in which every server of both sides has one script running: an array of shape (rounds, servers,
blocks), the baseline's servers first. A set of servers is alive at once, and the generations that
they forked belong to it. In a round every server runs two blocks, in an order that is the same
backwards, so that a steady drift of the machine cancels.

* The effect of a process is the trimmed mean of its blocks, each relative to the median of its
  round. The effect of a server is the trimmed mean over its processes, one per generation, because
  some generations are noisy. All servers of all sets count alike.
* A server further than five standard deviations from its side's median counts as exactly that far.
  The standard deviation comes from the median absolute deviation of both sides (the modified
  z-score of Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993; their limit of 3.5 is
  exceeded by chance among six servers). Now and then all processes of a server were 10 % slower
  or more. With h of n servers within the bounds, the interval is wider by (n - 1) /
  (h - 1), with h - 1 degrees of freedom (after Dixon and Tukey, "Approximate behavior of the
  distribution of Winsorized t", 1968, who replace equally many at both ends). If more than one in
  six servers of a side lie outside, they are not outliers, and none is bounded. Two sides are
  called the same only if they are also the same with all servers as measured.
* The interval is the standard error of a bootstrap over servers (within each side), each drawn with
  all of its processes and blocks, times the quantile of Student's t. Sides may differ in noise, so
  the degrees of freedom are those of Welch and Satterthwaite ("The generalization of Student's
  problem", 1947). Drawing processes and blocks too would count their noise twice, because servers
  already differ by it (Davison and Hinkley, "Bootstrap Methods and their Application", 1997,
  section 3.8); intervals were up to 1.4 times too wide. A bootstrap of n servers is too narrow by
  sqrt((n - 1) / n), which is corrected (Hesterberg, "What Teachers Should Know About the
  Bootstrap", 2015).
* Several looks share the error probability as Lan and DeMets describe ("Discrete sequential
  boundaries for clinical trials", 1983), in proportion to the square of the time as Kim and DeMets
  do ("Design and analysis of group sequential tests based on the type I error spending rate
  function", 1987). Early looks get little of it, because only a large difference is clear then. The
  interval of a look has what that look may spend.
* Many comparisons share the error probability evenly (Bonferroni): all intervals of a report hold
  together.
* Warm-up ends where the marginal standard error of the rest is smallest: MSER (White, "An effective
  truncation heuristic for bias reduction in simulation output", 1997).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
FARTHEST = 5.0
"""In standard deviations of the servers."""
OUTLIERS = 1 / 6
"""The share of a side's servers that may be outliers."""
RESAMPLES = 2000
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
    LESS = "less"
    SAME = "same"
    """The whole interval lies within the margin."""
    INCONCLUSIVE = "inconclusive"
    """The budget was spent before the interval left the margin or fitted into it."""


TIME_WORDS = {
    Size.MORE: "slower",
    Size.LESS: "faster",
    Size.SAME: "same",
    Size.INCONCLUSIVE: "inconclusive",
}
MEMORY_WORDS = {
    Size.MORE: "hungrier",
    Size.LESS: "leaner",
    Size.SAME: "same",
    Size.INCONCLUSIVE: "inconclusive",
}


class Ratio(Frozen, frozen=True, kw_only=True):
    """Candidate over baseline of one quantity, as factors: 1.05 is five per cent more."""

    ratio: float
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
    outliers: tuple[int, int] = (0, 0)
    """Servers of each side that were bounded."""
    unbounded: Estimate | None = None
    """The estimate with all servers as measured; None if none was bounded."""

    @property
    def p(self) -> float:
        """The p-value of a two-sided test that there is no difference."""
        return float(2 * stats.t.sf(abs(self.difference) / self.error, self.freedom))

    def half_width(self, alpha: float) -> float:
        """Half the width of the interval with error probability ``alpha``."""
        return float(stats.t.isf(alpha / 2, self.freedom)) * self.error


def of_blocks(sets: Sequence[Sequence[Floats]], generator: np.random.Generator) -> Estimate:
    """The estimate from the blocks of one or more generations of each set of servers."""
    logs = [[np.log(each) for each in generations] for generations in sets]
    effects = _by_side([_trimmed(np.stack([_effects(each) for each in one])) for one in logs])
    levels = _by_side(
        [np.exp(np.median([np.median(each, axis=(0, 2)) for each in one], axis=0)) for one in logs]
    )
    measured = _estimate(_as_measured(effects), levels, len(sets), generator)
    sides = _bounded(effects)
    outliers = sides[0].outliers, sides[1].outliers
    if not any(outliers):
        return measured
    bounded = _estimate(sides, levels, len(sets), generator)
    return replace(bounded, outliers=outliers, unbounded=measured)


def of_servers(sets: Sequence[Floats], generator: np.random.Generator) -> Estimate:
    """The estimate from one value per process: peak memory.

    ``sets`` has an array of shape (generations, servers) for each set of servers.
    """
    logs = [np.log(values) for values in sets]
    effects = _by_side(
        [(each - np.median(each, axis=1, keepdims=True)).mean(axis=0) for each in logs]
    )
    levels = _by_side([np.median(values, axis=0) for values in sets])
    return _estimate(_as_measured(effects), levels, len(sets), generator)


def _effects(logs: Floats) -> Floats:
    """From shape (rounds, servers, blocks) to (servers,).

    Each process is seen relative to all that ran at the same time.
    """
    residuals = logs - np.median(logs, axis=(1, 2), keepdims=True)
    per_server = residuals.transpose(1, 0, 2).reshape(logs.shape[1], -1)
    return np.asarray(stats.trim_mean(per_server, TRIMMED, axis=1))


def _trimmed(generations: Floats) -> Floats:
    """From shape (generations, servers) to (servers,): means without the ends."""
    count = generations.shape[0]
    fewest = 1 if count > 2 else 0  # noqa: PLR2004  (at least one is left)
    cut = max(int(TRIMMED_GENERATIONS * count), fewest)
    return np.asarray(np.sort(generations, axis=0)[cut : count - cut].mean(axis=0))


def _by_side(sets: Sequence[Floats]) -> Floats:
    """From one value per server of each set to those of all sets, the baseline's first."""
    return np.concatenate([each.reshape(2, -1) for each in sets], axis=1).ravel()


@dataclass(frozen=True)
class _Side:
    """The servers of one side, as their effects."""

    servers: Floats
    outliers: int
    """How many of them were moved to the bounds; the others are as measured."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom."""
        return max(1, self.servers.size - self.outliers - 1)

    @property
    def widened(self) -> float:
        """How much wider servers at the bounds make the interval."""
        return ((self.servers.size - 1) / self.freedom) ** 2

    @property
    def spread(self) -> float:
        """The variance of the servers; never less than what a clock can measure."""
        return max(float(self.servers.var()), SMALLEST**2) * self.widened

    def resampled(self, generator: np.random.Generator) -> float:
        """The variance of the mean of servers that are drawn with replacement."""
        n = self.servers.size
        drawn = generator.integers(n, size=(RESAMPLES, n))
        return float(np.var(self.servers[drawn].mean(axis=1))) * n / (n - 1) * self.widened


def _as_measured(servers: Floats) -> tuple[_Side, _Side]:
    """Both sides, the baseline's first."""
    baseline, candidate = servers.reshape(2, -1)
    return _Side(baseline, 0), _Side(candidate, 0)


def _bounded(servers: Floats) -> tuple[_Side, _Side]:
    """Both sides, the baseline's first, with outliers bounded."""
    sides = servers.reshape(2, -1)
    size = sides.shape[1]
    centres = np.median(sides, axis=1, keepdims=True)
    # Of so few numbers the median absolute deviation is too small: the factor of Croux and
    # Rousseeuw (1992), rounded.
    deviation = (
        float(stats.norm.ppf(0.75)) ** -1
        * size
        / (size - 0.8)
        * float(np.median(np.abs(sides - centres)))
    )
    bounded = np.clip(sides, centres - FARTHEST * deviation, centres + FARTHEST * deviation)
    outliers = (bounded != sides).sum(axis=1)
    most = int(OUTLIERS * size)
    baseline, candidate = (
        _Side(after, int(count)) if count <= most else _Side(before, 0)
        for before, after, count in zip(sides, bounded, outliers, strict=True)
    )
    return baseline, candidate


def _estimate(
    sides: tuple[_Side, _Side], levels: Floats, sets: int, generator: np.random.Generator
) -> Estimate:
    """The estimate from the servers of both sides.

    Args:
        sides: the baseline's servers first.
        levels: the servers' levels in the unit that was measured, the baseline's first.
        sets: how many sets of servers there were. For the noise floor, servers in the same place of
            each set belong together.
        generator: draws the bootstrap's samples.
    """
    baseline, candidate = sides
    error = math.sqrt(sum(side.resampled(generator) for side in sides))
    spread = sum(side.spread for side in sides)
    medians = np.median(levels.reshape(2, -1), axis=1)
    return Estimate(
        difference=float(candidate.servers.mean() - baseline.servers.mean()),
        error=max(error, SMALLEST),
        freedom=spread**2 / sum(side.spread**2 / side.freedom for side in sides),
        floor=_floor(baseline.servers.reshape(sets, -1).mean(axis=0)),
        baseline=float(medians[0]),
        candidate=float(medians[1]),
    )


def _floor(effects: Floats) -> float:
    """The largest difference between two equal parts of the places of the baseline."""
    every = set(range(effects.size))
    return max(
        abs(float(effects[list(part)].mean() - effects[list(every - set(part))].mean()))
        for part in combinations(every, effects.size // 2)
    )


def ratio(estimate: Estimate, *, alpha: float, margin: float, among: int = 1) -> Ratio:
    """The estimate as a ratio with its interval and verdict.

    Args:
        estimate: the difference of the two sides.
        alpha: the error probability that this look may spend.
        margin: the fraction that counts as the same.
        among: how many comparisons share the error probability.
    """
    half = estimate.half_width(alpha / among)
    found = verdict(estimate, half, math.log1p(margin))
    whole = estimate.unbounded
    if (
        found is Size.SAME
        and whole
        and verdict(whole, whole.half_width(alpha / among), math.log1p(margin)) is not found
    ):
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

    More or less: the interval excludes no difference, and the difference is beyond both the margin
    and the noise floor. Same: the whole interval is within the margin.
    """
    difference = estimate.difference
    if abs(difference) + half <= margin:
        return Size.SAME
    if abs(difference) > max(half, margin, estimate.floor):
        return Size.MORE if difference > 0 else Size.LESS
    return Size.INCONCLUSIVE


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
