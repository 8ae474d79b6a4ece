"""Step times of two sides -> a ratio with an interval, a noise floor from the same run, and a verdict.

All of it is on logarithms, so that a ratio and its inverse are treated alike. A generation is the time in which every
server of both sides has one script running: an array of shape (rounds, servers, blocks), the baseline's servers first.
In a round every server runs two blocks, in an order that is the same backwards: a steady drift of the machine cancels.

* The effect of one process is the trimmed mean of its blocks, each relative to the median of its round; that of a
  server is the mean over the processes that it forked, one in each generation.
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
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from harness.measured import Ratio, Size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ALPHA = 0.01
"""The probability of calling two equal sides different, over all looks."""
TRIMMED = 0.2
"""Of a server's blocks, at either end: other processes make some of them long."""
RESAMPLES = 1000
SHORTEST = 8
"""Fewer step times say nothing of a warm-up: of up to six, any would be found to end it in their first half."""
SMALLEST = 1e-5
"""Two servers may differ by less than a clock can tell: no standard error is smaller."""


@dataclass(frozen=True)
class Estimate:
    """The difference of two sides' logarithms: candidate minus baseline."""

    difference: float
    error: float
    """Its standard error."""
    freedom: float
    """Degrees of freedom: from those of one side to those of both."""
    floor: float
    """The largest difference between two halves of the baseline's servers."""
    baseline: float
    candidate: float
    """Medians over the servers, in the unit that was measured."""

    @property
    def p(self) -> float:
        """Of a two-sided test that there is no difference."""
        return float(2 * stats.t.sf(abs(self.difference) / self.error, self.freedom))

    def half_width(self, alpha: float) -> float:
        """Of the interval with error probability ``alpha``."""
        return float(stats.t.isf(alpha / 2, self.freedom)) * self.error


def of_blocks(generations: Sequence[Floats], generator: np.random.Generator) -> Estimate:
    """The estimate from the blocks of one or more generations."""
    logs = [np.log(each) for each in generations]
    effects = np.stack([_effects(each) for each in logs])
    levels = np.exp(np.median([np.median(each, axis=(0, 2)) for each in logs], axis=0))
    return _estimate(effects, levels, generator)


def of_servers(values: Floats, generator: np.random.Generator) -> Estimate:
    """The estimate from one value per process, of shape (generations, servers): peak memory."""
    logs = np.log(values)
    return _estimate(logs - np.median(logs, axis=1, keepdims=True), np.median(values, axis=0), generator)


def _effects(logs: Floats) -> Floats:
    """Shape (rounds, servers, blocks) -> (servers,): each process relative to all that ran at the same time."""
    residuals = logs - np.median(logs, axis=(1, 2), keepdims=True)
    per_server = residuals.transpose(1, 0, 2).reshape(logs.shape[1], -1)
    return np.asarray(stats.trim_mean(per_server, TRIMMED, axis=1))


def _estimate(effects: Floats, levels: Floats, generator: np.random.Generator) -> Estimate:
    """From effects of shape (generations, servers), and the servers' levels in the unit that was measured."""
    half = effects.shape[1] // 2
    servers = effects.mean(axis=0)
    sides = servers[:half], servers[half:]
    resampled = [_resampled(side, generator) for side in sides]
    error = float(np.std(resampled[1] - resampled[0])) * math.sqrt(half / (half - 1))
    return Estimate(
        difference=float(sides[1].mean() - sides[0].mean()),
        error=max(error, SMALLEST),
        freedom=_freedom(*sides),
        floor=_floor(sides[0]),
        baseline=float(np.median(levels[:half])),
        candidate=float(np.median(levels[half:])),
    )


def _freedom(baseline: Floats, candidate: Floats) -> float:
    """Degrees of freedom of two sides with as many servers, whose noise may differ."""
    of_one = baseline.size - 1
    variances = max(float(baseline.var()), SMALLEST**2), max(float(candidate.var()), SMALLEST**2)
    return of_one * sum(variances) ** 2 / sum(each**2 for each in variances)


def _resampled(servers: Floats, generator: np.random.Generator) -> Floats:
    """Means of one side, of servers drawn with replacement, each with all that it forked."""
    drawn = generator.integers(servers.size, size=(RESAMPLES, servers.size))
    return np.asarray(servers[drawn].mean(axis=1))


def _floor(effects: Floats) -> float:
    """Of all ways to part the baseline's servers in two, as equal as can be, the one that differs most."""
    every = set(range(effects.size))
    return max(
        abs(float(effects[list(part)].mean() - effects[list(every - set(part))].mean()))
        for part in combinations(every, effects.size // 2)
    )


def ratio(estimate: Estimate, *, alpha: float, margin: float, among: int = 1) -> Ratio:
    """The estimate as a ratio with its interval and verdict, ``among`` so many; ``margin`` is a fraction."""
    half = estimate.half_width(alpha / among)
    return Ratio(
        ratio=math.exp(estimate.difference),
        low=math.exp(estimate.difference - half),
        high=math.exp(estimate.difference + half),
        confidence=1 - alpha,
        among=among,
        p=estimate.p,
        floor=math.exp(estimate.floor),
        margin=margin,
        verdict=verdict(estimate, half, math.log1p(margin)),
        baseline=estimate.baseline,
        candidate=estimate.candidate,
    )


def verdict(estimate: Estimate, half: float, margin: float) -> Size:
    """More or less: the interval is beyond 1, and the difference beyond both the margin and the noise floor.

    Same: the whole interval is within the margin.
    """
    difference = estimate.difference
    if -margin <= difference - half and difference + half <= margin:
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
