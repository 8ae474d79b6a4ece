"""Races of runners that were thought up: nothing runs, and what the order of blocks was is known."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from gradmatrix.measure.race import Measurement
from gradmatrix.measure.servers import Servers
from gradmatrix.measure.statistics import Key
from tests.fakes.told import Told
from tests.pacing import asks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradmatrix.measure.servers import MeasuredServer

KEY = Key("paced", "control", "cpu")
HALF = 3
LASTS = 40
"""Generations."""


class Dated(Measurement):
    """A race whose budget lasts for so many generations, however fast they are."""

    @property
    def gone(self) -> float:
        """The fraction of the budget that is spent."""
        return len(self.generations) / LASTS if self.budget_s else 1.0


@contextmanager
def a_race(
    *,
    slower: float = 1.0,
    budget_s: float = 1000,
    margin: float = 0.01,
    half: int = HALF,
    kind: type[Measurement] = Dated,
    **what: object,
) -> Iterator[tuple[Measurement, list[Told], list[int]]]:
    """A race of runners that were thought up, whose candidates take ``slower`` times as long; and what they log."""
    log: list[int] = []
    told = [Told(number, log, **what) for number in range(2 * half)]  # type: ignore[arg-type]  # of many types
    for each in told[half:]:
        each.step_s *= slower
    with ThreadPoolExecutor(2) as pool:
        runners: list[MeasuredServer] = told  # type: ignore[assignment]  # they are told, and do nothing
        yield (
            kind(
                Servers(runners, pool),
                KEY,
                asks(),
                budget_s,
                margin,
                generator=np.random.default_rng(1),
            ),
            told,
            log,
        )
