"""Measurements with simulated servers: nothing runs, and the order of blocks is known."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from gradmatrix.measure.race import Measurement
from gradmatrix.measure.servers import Servers
from gradmatrix.measure.statistics import Key
from tests.fakes.simulated_server import SimulatedServer
from tests.pacing import asks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradmatrix.measure.servers import MeasuredServer

KEY = Key("paced", "control", "cpu")
HALF = 3
LASTS = 40
"""Generations in a budget."""


class Dated(Measurement):
    """A measurement whose budget lasts for LASTS generations."""

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
) -> Iterator[tuple[Measurement, list[SimulatedServer], list[int]]]:
    """A measurement on simulated servers. Candidates take ``slower`` times as long."""
    log: list[int] = []
    simulated = [
        SimulatedServer(number, log, **what)  # type: ignore[arg-type]  # of many types
        for number in range(2 * half)
    ]
    for each in simulated[half:]:
        each.step_s *= slower
    with ThreadPoolExecutor(2) as pool:
        servers: list[MeasuredServer] = simulated  # type: ignore[assignment]  # same methods
        yield (
            kind(
                Servers(servers, pool),
                KEY,
                asks(),
                budget_s,
                margin,
                generator=np.random.default_rng(1),
            ),
            simulated,
            log,
        )
