"""The words of a measured comparison: ratios of candidate over baseline, with intervals and verdicts.

Step times of two sides -> a ratio with an interval, a noise floor from the same run, and a verdict.

All of it is on logarithms, so that a ratio and its inverse are treated alike. A generation is the time in which every
server of both sides has one script running: an array of shape (rounds, servers, blocks), the baseline's servers first.
A crew is the servers that live at once; the generations that they forked belong to it. In a round every server runs two
blocks, in an order that is the same backwards: a steady drift of the machine cancels.

* The effect of one process is the trimmed mean of its blocks, each relative to the median of its round; that of a
  server is the trimmed mean over the processes that it forked, one in each generation: some generations are noisy. All
  servers of all crews count alike.
* A server that is further from its side's median than five standard deviations, as the median absolute deviation of
  both sides tells them, counts as that far from it (the modified z-score of Iglewicz and Hoaglin, "How to Detect and
  Handle Outliers", 1993; their 3.5 is exceeded by chance among six): now and then a server was seen of which all
  processes were slower by 10 % and more. That makes the interval wider: h servers of n within bounds, by
  (n - 1) / (h - 1), with h - 1 degrees of freedom (after Dixon and Tukey, "Approximate behavior of the distribution of
  Winsorized t", 1968; they replace as many at either end). More than one in six of a side are no outliers but how that
  side is: then none is bounded. And nothing is called the same that is not so with all servers as they were measured.
* The interval is the standard error of a bootstrap over servers (within their side), each drawn with all of its
  processes and blocks, times the quantile of Student's t. Sides may differ in noise: the degrees of freedom are those
  of Welch and Satterthwaite ("The generalization of Student's problem", 1947). To draw processes and blocks anew as
  well would count their noise twice: servers differ by it already (Davison and Hinkley, "Bootstrap Methods and their
  Application", 1997, section 3.8); intervals were up to 1.4 times too wide.
  A bootstrap of n servers is too narrow by sqrt((n - 1) / n); that is put right (Hesterberg, "What Teachers Should
  Know About the Bootstrap", 2015).
* Looking several times spends the error probability as Lan and DeMets have it ("Discrete sequential boundaries for
  clinical trials", 1983), with the square of the time as Kim and DeMets do ("Design and analysis of group sequential
  tests based on the type I error spending rate function", 1987): little of it early, where only a large difference is
  clear anyway. The interval of a look has what that look may spend; of few looks, each has more.
* Many comparisons share the error probability evenly (Bonferroni): all intervals of a report hold together.
* Warm-up ends where the marginal standard error of what follows is least: MSER (White, "An effective truncation
  heuristic for bias reduction in simulation output", 1997).
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
"""Of a server's blocks, at either end: other processes make some of them long."""
TRIMMED_GENERATIONS = 0.25
"""Of a server's processes, at either end; of three or more one at least."""
FARTHEST = 5.0
"""Standard deviations of the servers."""
OUTLIERS = 1 / 6
"""Share of a side's servers that may lie further out."""
RESAMPLES = 2000
SHORTEST = 8
"""Fewer step times say nothing of a warm-up: of up to six, any would be found to end it in their first half."""
SMALLEST = 1e-5
"""Two servers may differ by less than a clock can tell: no standard error is smaller."""


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


@dataclass(frozen=True)
class Estimate:
    """The difference of two sides' logarithms: candidate minus baseline."""

    difference: float
    error: float
    """Its standard error."""
    freedom: float
    """Degrees of freedom: from those of one side to those of both."""
    floor: float
    """The largest difference between two halves of the baseline's servers, those that took another's place with it."""
    baseline: float
    candidate: float
    """Medians over the servers, in the unit that was measured."""
    outliers: tuple[int, int] = (0, 0)
    """Servers of each side that count as less far out than they were."""
    unbounded: Estimate | None = None
    """With all servers as they were measured; None where they count so anyway."""

    @property
    def p(self) -> float:
        """Of a two-sided test that there is no difference."""
        return float(2 * stats.t.sf(abs(self.difference) / self.error, self.freedom))

    def half_width(self, alpha: float) -> float:
        """Of the interval with error probability ``alpha``."""
        return float(stats.t.isf(alpha / 2, self.freedom)) * self.error


def of_blocks(sets: Sequence[Sequence[Floats]], generator: np.random.Generator) -> Estimate:
    """The estimate from the blocks of one or more generations of each crew."""
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
    """The estimate from one value per process, an array of shape (generations, servers) for each crew: peak memory."""
    logs = [np.log(values) for values in sets]
    effects = _by_side(
        [(each - np.median(each, axis=1, keepdims=True)).mean(axis=0) for each in logs]
    )
    levels = _by_side([np.median(values, axis=0) for values in sets])
    return _estimate(_as_measured(effects), levels, len(sets), generator)


def _effects(logs: Floats) -> Floats:
    """Shape (rounds, servers, blocks) -> (servers,): each process relative to all that ran at the same time."""
    residuals = logs - np.median(logs, axis=(1, 2), keepdims=True)
    per_server = residuals.transpose(1, 0, 2).reshape(logs.shape[1], -1)
    return np.asarray(stats.trim_mean(per_server, TRIMMED, axis=1))


def _trimmed(generations: Floats) -> Floats:
    """Shape (generations, servers) -> (servers,): means without the ends."""
    count = generations.shape[0]
    cut = max(int(TRIMMED_GENERATIONS * count), 1 if count > 2 else 0)  # noqa: PLR2004  (what is left is one or more)
    return np.asarray(np.sort(generations, axis=0)[cut : count - cut].mean(axis=0))


def _by_side(sets: Sequence[Floats]) -> Floats:
    """One value per server of each crew -> of all crews, the baseline's first."""
    return np.concatenate([each.reshape(2, -1) for each in sets], axis=1).ravel()


@dataclass(frozen=True)
class _Side:
    """The servers of one side, as their effects."""

    servers: Floats
    outliers: int
    """How many of them are at the bounds; the others are where they were measured."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom."""
        return max(1, self.servers.size - self.outliers - 1)

    @property
    def widened(self) -> float:
        """By how much servers at the bounds make a variance larger."""
        return ((self.servers.size - 1) / self.freedom) ** 2

    @property
    def spread(self) -> float:
        """Variance of the servers; never less than what a clock can tell."""
        return max(float(self.servers.var()), SMALLEST**2) * self.widened

    def resampled(self, generator: np.random.Generator) -> float:
        """Variance of the mean: of servers drawn with replacement, each with all that it forked."""
        n = self.servers.size
        drawn = generator.integers(n, size=(RESAMPLES, n))
        return float(np.var(self.servers[drawn].mean(axis=1))) * n / (n - 1) * self.widened


def _as_measured(servers: Floats) -> tuple[_Side, _Side]:
    """Both sides, the baseline's first."""
    baseline, candidate = servers.reshape(2, -1)
    return _Side(baseline, 0), _Side(candidate, 0)


def _bounded(servers: Floats) -> tuple[_Side, _Side]:
    """Both sides, the baseline's first, without outliers."""
    sides = servers.reshape(2, -1)
    size = sides.shape[1]
    centres = np.median(sides, axis=1, keepdims=True)
    # of so few numbers the median absolute deviation is too small: Croux and Rousseeuw's factor (1992), rounded
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
    """From the servers of both sides, and their levels in the unit that was measured, the baseline's first.

    Those of one place in each of the ``crews`` belong together where the noise floor is looked for.
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
    """Of all ways to part the places of the baseline in two, as equal as can be, the one that differs most."""
    every = set(range(effects.size))
    return max(
        abs(float(effects[list(part)].mean() - effects[list(every - set(part))].mean()))
        for part in combinations(every, effects.size // 2)
    )


def ratio(estimate: Estimate, *, alpha: float, margin: float, among: int = 1) -> Ratio:
    """The estimate as a ratio with its interval and verdict, ``among`` so many; ``margin`` is a fraction."""
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
    """More or less: the interval is beyond 1, and the difference beyond both the margin and the noise floor.

    Same: the whole interval is within the margin.
    """
    difference = estimate.difference
    if abs(difference) + half <= margin:
        return Size.SAME
    if abs(difference) > max(half, margin, estimate.floor):
        return Size.MORE if difference > 0 else Size.LESS
    return Size.INCONCLUSIVE


def spent(fraction: float, alpha: float = ALPHA) -> float:
    """What of ``alpha`` may be spent when ``fraction`` of the budget is gone."""
    return alpha * min(max(fraction, 0.0), 1.0) ** 2


def steady_from(times: Sequence[float]) -> int | None:
    """The index of the first of ``times`` that is not warm-up; None where it does not end in the first half (MSER)."""
    values = np.asarray(times, dtype=float)
    if values.size < SHORTEST:
        return None
    tails = [values[start:] for start in range(values.size - 1)]
    errors = [float(np.var(each)) / each.size for each in tails]
    found = int(np.argmin(errors[: max(1, values.size * 3 // 4)]))
    return found if found <= values.size // 2 else None
