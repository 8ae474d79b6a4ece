"""Simulated comparisons, whose answer is known."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from gradmatrix.measure import statistics
from gradmatrix.measure.race import LOOKS
from gradmatrix.measure.statistics import ALPHA, Estimate, Ratio, Size

SERVERS = 6
ROUNDS = 4
MARGIN = 0.01
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

seeds = st.integers(0, 2**32 - 1)


def processes(
    generator: np.random.Generator,
    *,
    effect: float = 0.0,
    server: float = 0.01,
    process: float = 0.01,
) -> list[Floats]:
    """Step times of twelve generations of two sides whose logarithms differ by ``effect``."""
    levels = generator.normal(0, server, 2 * SERVERS)
    levels[SERVERS:] += effect
    found = []
    for _ in range(12):
        each = levels + generator.normal(0, process, 2 * SERVERS)
        found.append(
            np.exp(each[None, :, None] + generator.normal(0, 0.04, (ROUNDS, 2 * SERVERS, 2)))
        )
    return found


def estimate(generations: list[Floats]) -> Estimate:
    """The estimate of one set of servers."""
    return statistics.of_blocks([generations])


@dataclass(frozen=True, kw_only=True)
class Model:
    """How the servers of both sides differ, as logarithms."""

    effect: float = 0.0
    """The candidate's mean minus the baseline's."""
    server: float = 0.01
    """The standard deviation of the servers."""
    process: float = 0.01
    """That of the processes of a server."""
    share: float = 0.0
    """This share of the servers is slower by ``mode``, whatever its side."""
    mode: float = 0.05
    candidate_share: float | None = None
    """The share of the candidate's servers that is, if it is another one."""

    def servers(self, generator: np.random.Generator, crew: int) -> Floats:
        """The effects of a crew's servers, the baseline's first."""
        shares = np.repeat(
            [self.share, self.share if self.candidate_share is None else self.candidate_share], crew
        )
        slow = generator.random(2 * crew) < shares
        effects = np.repeat([0.0, self.effect], crew)
        return np.asarray(effects + slow * self.mode + generator.normal(0, self.server, 2 * crew))


GENERATIONS = 20
"""The generations that the whole budget lasts for."""


def verdict(
    generator: np.random.Generator, model: Model, *, crews: int = 1, margin: float = MARGIN
) -> Size:
    """The verdict of one simulated comparison with the looks of a real one.

    Each crew is measured for an equal part of the budget. What its processes tell at a look is
    their mean, as one block.
    """
    of_crew = GENERATIONS // crews
    levels = [model.servers(generator, SERVERS) for _ in range(crews)]
    noise = generator.normal(0, model.process, (crews, of_crew, 2 * SERVERS))
    spent = 0.0
    found = Size.INCONCLUSIVE
    for look in LOOKS:
        there = max(1, int(look * crews * of_crew))  # generations of all crews
        blocks = [
            np.exp(levels[each] + noise[each, : there - each * of_crew].mean(axis=0))
            for each in range(math.ceil(there / of_crew))
        ]
        total = statistics.spent(look)
        alpha, spent = total - spent, total
        estimate = statistics.of_blocks([[each[None, :, None]] for each in blocks])
        found = statistics.ratio(estimate, alpha=alpha, margin=margin, among=2).verdict
        if found.is_clear:
            break
    return found


def verdicts(count: int, seed: int, model: Model, **options: float) -> Counter[Size]:
    """The verdicts of so many simulated comparisons."""
    generator = np.random.default_rng(seed)
    return Counter(verdict(generator, model, **options) for _ in range(count))  # type: ignore[arg-type]


def most(count: int, rate: float) -> int:
    """How many of ``count`` events of this rate there may be: more have a chance of 1e-6."""
    return int(stats.binom.isf(1e-6, count, rate))


def known(
    difference: float,
    *,
    error: float = 0.001,
    floor: float = 0.0,
    servers: int = statistics.FEWEST_FOR_SAME,
) -> Estimate:
    """An estimate with ten degrees of freedom."""
    return Estimate(
        difference,
        error,
        2 * SERVERS - 2,
        floor,
        baseline=1.0,
        candidate=math.exp(difference),
        servers=servers,
    )


def judged(found: Estimate, margin: float = MARGIN) -> Ratio:
    """The estimate as a ratio that may spend all of the error probability."""
    return statistics.ratio(found, alpha=ALPHA, margin=margin)
