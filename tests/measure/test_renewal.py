"""When servers are replaced, what this costs, and what counts, with a simulated clock."""

from __future__ import annotations

import math

import pytest

from gradmatrix.measure import statistics
from gradmatrix.measure.race import Measurement
from gradmatrix.measure.servers import Servers
from tests.racing import HALF, Dated, a_race


class Clock:
    """Seconds that pass when a generation ends, and at no other moment."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """The time."""
        return self.now

    def pass_by(self, seconds: float) -> None:
        """Let this many seconds pass."""
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of a measurement and its servers."""
    found = Clock()
    for module in ("race", "servers"):
        monkeypatch.setattr(f"gradmatrix.measure.{module}.time.monotonic", found.monotonic)
    generation = Measurement.generation

    def passing(race: Measurement) -> None:
        generation(race)
        found.now += 10

    monkeypatch.setattr(Measurement, "generation", passing)
    return found


@pytest.mark.parametrize(
    ("opening_s", "sets"),
    [
        (10, [3, 1, 1, 1, 1, 1, 2]),
        (30, [3, 3, 4]),
        (1, [3] + [1] * 7),
        (60, [10]),
        (math.inf, [10]),
    ],
)
def test_servers_that_ran_long_enough_are_replaced(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, opening_s: float, sets: list[int]
) -> None:
    """This is after the second look.

    Starting others took no longer, and as much time is left.
    """

    def renew(both: Servers) -> None:
        for each in both.members:
            each.renew()
            each.open()
        clock.now += opening_s

    monkeypatch.setattr(Servers, "renew", renew)
    with a_race(margin=1e-9, budget_s=100, kind=Measurement) as (race, simulated, _):
        race.began, race.both.opening_s = 0.0, opening_s
        found = race.run()
    assert (sets, len(sets) * HALF) == ([len(each) for each in race.sets], found.servers)
    assert {len(sets) - 1} == {each.renewed for each in simulated}


def test_processes_that_have_a_server_each_need_no_other(clock: Clock) -> None:
    """This is so if a server cannot fork."""
    with a_race(margin=1e-9, budget_s=100, kind=Measurement, fork=False) as (race, simulated, _):
        race.began, race.both.opening_s = 0.0, 1
        race.run()
    assert {0} == {each.renewed for each in simulated}


def test_what_was_measured_is_reported_where_servers_cannot_be_replaced(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look uses the old servers and the rest of the error probability."""

    def renew(_both: Servers) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Servers, "renew", renew)
    with a_race(margin=1e-9, budget_s=100, kind=Measurement) as (race, _, _):
        race.began, race.both.opening_s = 0.0, 1
        found = race.run()
    assert found.step_time is not None
    assert (
        "budget",
        HALF,
        ("the servers could not be replaced: [Errno 28] No space left on device",),
    ) == (
        found.stopped,
        found.servers,
        found.notices,
    )
    assert race.spent == statistics.ALPHA


def test_what_starting_servers_takes_is_known_once_they_were_started_together(clock: Clock) -> None:
    """Learning counts too. The time of servers from before is known or counts as infinite."""
    with a_race() as (race, simulated, _):
        race.prepare()
        assert math.inf == race.both.opening_s
        race.both.renew()
        assert 0 == race.both.opening_s
        simulated[0].learning = lambda: clock.pass_by(3)
        race.prepare()
        assert 3 == race.both.opening_s


def test_a_generation_that_the_budget_cuts_off_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would count like one with many rounds. The only generation does count."""
    with a_race(margin=1e-9, budget_s=100) as (race, _, _):
        race.generation()
        monkeypatch.setattr(Dated, "gone", 1.0)
        race.generation()
        assert ([1], [1]) == (
            [len(each) for each in race.sets],
            [len(each) for each in race.peaks],
        )
        race.sets, race.peaks = [[]], [[]]
        race.generation()
        assert [1] == [len(each) for each in race.generations]
