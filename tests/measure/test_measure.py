"""Cells that share servers and a budget, and servers that do a task together."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pytest
from msgspec.structs import replace

from gradmatrix.core.model import Steps
from gradmatrix.measure import race
from gradmatrix.measure.race import Measurement, measure, smallest_budget_s, unmeasured
from gradmatrix.measure.servers import Broken, Servers
from gradmatrix.run.plan import Action, Limits, Planned
from gradmatrix.run.pool import Settings
from tests.conftest import PATIENCE_S
from tests.factories import make_cell, make_scenario, make_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gradmatrix.measure.statistics import Measured

P = ParamSpec("P")
T = TypeVar("T")
SETTINGS = Settings(Steps(), Limits(timeout_s=PATIENCE_S, memory_bytes=None, threads=1))


class Pool(ThreadPoolExecutor):
    """Two workers. It signals when task 4, the last one, was cancelled."""

    def __init__(self) -> None:
        super().__init__(2)
        self.cancelled = Event()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit the task and remember it."""
        future = super().submit(fn, *args, **kwargs)
        if args == (4,):
            future.add_done_callback(lambda _: self.cancelled.set())
        return future


def test_one_that_fails_leaves_no_other_at_work() -> None:
    """After that no server is being started, so all can be ended."""
    over: list[int] = []

    def task(number: int) -> int:
        if number == 0:
            raise Broken("it")
        assert pool.cancelled.wait(PATIENCE_S)
        over.append(number)
        return number

    with Pool() as pool:
        with pytest.raises(Broken):
            Servers([], pool).each(task, [1, 0, 2, 3, 4])
        then = set(over)
    assert then == set(over) <= {1, 2}  # two at a time; nothing is done after the error is raised


def test_all_that_was_asked_for_comes_back_in_its_order() -> None:
    """The order in which tasks end does not matter."""

    def task(number: int) -> int:
        time.sleep(0.02 * number)
        return number

    with ThreadPoolExecutor(3) as pool:
        assert [3, 1, 2] == Servers([], pool).each(task, [3, 1, 2])


def test_what_one_cell_does_not_need_is_left_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three cells share 90 seconds. If the first needs 10 of its 30, the others get 40 each."""
    given = []

    def run(race: Measurement) -> Measured:
        given.append((race.key.variant, race.budget_s, race.among))
        return replace(unmeasured(race.key, ""), spent_s=10.0)

    @contextmanager
    def no_servers(*_: object) -> Iterator[Servers]:
        with ThreadPoolExecutor(1) as pool:
            yield Servers([], pool)

    monkeypatch.setattr(race, "make_servers", no_servers)
    monkeypatch.setattr(Measurement, "run", run)
    planned = [a_cell(name) for name in ("one", "two", "three")]
    here = Path()
    stages: list[str] = []
    found = measure(
        here, here, planned, SETTINGS, budget_s=90, margin=0.01, directory=here, stage=stages.append
    )
    assert [("one", 30, 6), ("two", 40, 6), ("three", 70, 6)] == given
    assert [name for name, *_ in given] == [key.variant for key in found]
    assert stages[1] == "measuring 1 of 3: scenario/one/cpu, 30 s at most"


@pytest.mark.parametrize(
    ("step_s", "least_s"), [(0.001, 3.2), (0.01, 5.0), (0.2, 25.2), (2.0, 145.2)]
)
def test_the_smallest_budget_holds_one_generation(step_s: float, least_s: float) -> None:
    """Twelve processes with their warm-up and their first rounds."""
    assert pytest.approx(least_s, rel=0.2) == smallest_budget_s(step_s)


def a_cell(variant: str) -> Planned:
    """A cell that would be measured."""
    made = make_variant(variant)
    return Planned(
        make_cell(variant=variant), make_scenario("scenario", made), made, "key", {}, Action.RUN, ""
    )
