"""Simulated comparisons, whose answer is known."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import strategies as st

from gradmatrix.measure import statistics
from gradmatrix.measure.statistics import ALPHA, Estimate, Ratio, Size

SERVERS = 6
ROUNDS = 4
LOOKS = 4
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


def estimate(generations: list[Floats], seed: int = 1) -> Estimate:
    """The estimate, with a bootstrap that draws the same each time."""
    return statistics.of_blocks([generations], np.random.default_rng(seed))


def verdict(generator: np.random.Generator, *, margin: float = MARGIN, **model: float) -> Size:
    """The verdict of a simulated comparison with several looks."""
    generations = processes(generator, **model)
    spent = 0.0
    for look in range(1, LOOKS + 1):
        total = statistics.spent(look / LOOKS)
        alpha, spent = total - spent, total
        found = statistics.of_blocks([generations[: len(generations) * look // LOOKS]], generator)
        size = statistics.ratio(found, alpha=alpha, margin=margin, among=2).verdict
        if size is not Size.INCONCLUSIVE:
            return size
    return Size.INCONCLUSIVE


def verdicts(count: int, seed: int, **model: float) -> Counter[Size]:
    """The verdicts of several simulated comparisons."""
    generator = np.random.default_rng(seed)
    return Counter(verdict(generator, **model) for _ in range(count))


def known(difference: float, *, error: float = 0.001, floor: float = 0.0) -> Estimate:
    """An estimate of six servers a side."""
    return Estimate(
        difference, error, 2 * SERVERS - 2, floor, baseline=1.0, candidate=math.exp(difference)
    )


def judged(found: Estimate, margin: float = MARGIN) -> Ratio:
    """The estimate as a ratio that may spend all of the error probability."""
    return statistics.ratio(found, alpha=ALPHA, margin=margin)
