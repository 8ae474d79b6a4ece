"""Which block comes when, when it is enough, and what is said of it: with runners that were thought up."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from harness import interleave, statistics
from harness.crew import Crew
from harness.interleave import measure
from harness.launch import ServerDied
from harness.measured import Key, Size
from harness.model import Steps
from harness.pace import Broken
from harness.plan import Action, Limits, Planned
from harness.pool import Settings
from harness.race import FIRST_LOOK, RESTARTS, Race
from harness.verdict import Ended
from tests.factories import make_cell, make_scenario, make_variant
from tests.fakes.told import Told
from tests.pacing import asks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.runner import Runner

KEY = Key("paced", "control", "cpu")
HALF = 3
LASTS = 40
"""Generations."""
SETTINGS = Settings(Steps(), Limits(timeout_s=60, memory_bytes=None, threads=1))


class Dated(Race):
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
    kind: type[Race] = Dated,
    **what: object,
) -> Iterator[tuple[Race, list[Told], list[int]]]:
    """A race of runners that were thought up, whose candidates take ``slower`` times as long; and what they log."""
    log: list[int] = []
    told = [Told(number, log, **what) for number in range(2 * half)]  # type: ignore[arg-type]  # of many types
    for each in told[half:]:
        each.step_s *= slower
    with ThreadPoolExecutor(2) as pool:
        runners: list[Runner] = told  # type: ignore[assignment]  # they are told, and do nothing
        yield kind(Crew(runners, pool), KEY, asks(), budget_s, margin, generator=np.random.default_rng(1)), told, log


@pytest.mark.parametrize("half", [1, 2, 3, 5])
def test_every_server_runs_two_blocks_of_a_round_in_an_order_that_is_the_same_backwards(half: int) -> None:
    """So that a machine that slows down steadily slows no server more than another."""
    with a_race(half=half) as (race, _, log):
        race.steps = 4
        times = race.round()
    assert sorted(log) == sorted([*range(2 * half)] * 2)
    assert log == log[::-1]
    assert times.shape == (2 * half, 2)


def test_the_sides_alternate_within_a_round() -> None:
    """A B B A A B and back: of each pair one is the baseline's."""
    with a_race(half=5) as (race, _, log):
        race.steps = 4
        for _ in range(20):
            log.clear()
            race.round()
            sides = [number >= 5 for number in log[:10]]
            pairs = [tuple(sides[each : each + 2]) for each in range(0, 10, 2)]
            assert all(after == before[::-1] for before, after in pairwise(pairs))
            assert set(pairs) <= {(True, False), (False, True)}


def test_neither_side_is_always_first() -> None:
    """Nor any server: who begins a round is chance."""
    with a_race() as (race, _, log):
        race.steps = 4
        firsts = []
        for _ in range(60):
            log.clear()
            race.round()
            firsts.append(log[0])
    assert set(range(2 * HALF)) == set(firsts)


def test_a_clear_difference_stops_the_race_at_the_first_look() -> None:
    """Long before the budget is spent."""
    with a_race(slower=1.3) as (race, _, _):
        found = race.run()
    assert found.step_time is not None
    assert (Size.MORE, "clear", FIRST_LOOK) == (
        found.step_time.verdict,
        found.stopped,
        len(race.generations),
    )
    assert pytest.approx(1.3, rel=0.01) == found.step_time.ratio


def test_a_candidate_that_is_faster_is_told_so() -> None:
    """The other way round."""
    with a_race(slower=0.8) as (race, _, _):
        found = race.run()
    assert found.step_time is not None
    assert found.step_time.verdict is Size.LESS


def test_equal_sides_with_little_noise_are_the_same() -> None:
    """The interval fits into a margin of five per cent."""
    with a_race(margin=0.05) as (race, _, _):
        found = race.run()
    assert found.step_time is not None
    assert (Size.SAME, "clear") == (found.step_time.verdict, found.stopped)


def test_a_budget_that_is_spent_ends_it() -> None:
    """With what can be said then: after one generation of one round, where there was no time for more."""
    with a_race(margin=1e-9, budget_s=0) as (race, _, _):
        found = race.run()
    assert found.step_time is not None
    assert (Size.INCONCLUSIVE, "budget", 1, 2 * HALF) == (
        found.step_time.verdict,
        found.stopped,
        len(race.generations),
        found.blocks,
    )


def test_looking_spends_the_error_probability_once() -> None:
    """Each look has what has become free since the last one, and all of them no more than the whole."""
    with a_race() as (race, _, _):
        race.crews = [[np.exp(np.random.default_rng(1).normal(0, 0.01, (3, 2 * HALF, 2)))]]
        confidences = [1 - race.look(gone).confidence for gone in (0.2, 0.5, 1.0)]
    assert pytest.approx(statistics.ALPHA) == sum(confidences)
    assert pytest.approx(statistics.spent(0.2)) == confidences[0]
    assert race.spent == statistics.ALPHA


def test_one_server_of_each_side_finds_out_what_the_others_import() -> None:
    """Of its own side, whose packages are others."""
    with a_race() as (race, told, _):
        race.prepare()
    assert [1, 0, 0, 1, 0, 0] == [each.scouts for each in told]
    lines = [b"what 0 imported", b"what 3 imported"]
    assert [[lines[0]]] * 3 + [[lines[1]]] * 3 == [each.learned for each in told]


def test_every_generation_has_new_processes() -> None:
    """That is what differs from one to the next; none is left at the end."""
    with a_race(slower=1.3) as (race, told, _):
        found = race.run()
    assert [FIRST_LOOK] * 2 * HALF == [each.begun for each in told]
    assert [False] * 2 * HALF == [each.running for each in told]
    assert found.processes == HALF * FIRST_LOOK


class Clock:
    """Seconds that pass when a generation ends, and at no other moment."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """What the time is."""
        return self.now

    def pass_by(self, seconds: float) -> None:
        """So many have passed."""
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of a race and its servers."""
    found = Clock()
    for module in ("race", "crew"):
        monkeypatch.setattr(f"harness.{module}.time.monotonic", found.monotonic)
    generation = Race.generation

    def passing(race: Race) -> None:
        generation(race)
        found.now += 10

    monkeypatch.setattr(Race, "generation", passing)
    return found


@pytest.mark.parametrize(
    ("opening_s", "crews"),
    [(10, [3, 1, 1, 2]), (30, [3, 4]), (1, [3] + [1] * 7), (60, [10]), (math.inf, [10])],
)
def test_servers_that_ran_long_enough_are_replaced(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, opening_s: float, crews: list[int]
) -> None:
    """After the second look, at 30 of 100 s; where starting others took no longer, and twice that is left."""

    def renew(crew: Crew) -> None:
        for each in crew.runners:
            each.renew()
            each.open()
        clock.now += opening_s

    monkeypatch.setattr(Crew, "renew", renew)
    with a_race(margin=1e-9, budget_s=100, kind=Race) as (race, told, _):
        race.began, race.crew.opening_s = 0.0, opening_s
        found = race.run()
    assert (crews, len(crews) * HALF) == ([len(each) for each in race.crews], found.servers)
    assert {len(crews) - 1} == {each.renewed for each in told}


def test_processes_that_have_a_server_each_need_no_other(clock: Clock) -> None:
    """Where a server cannot fork."""
    with a_race(margin=1e-9, budget_s=100, kind=Race, fork=False) as (race, told, _):
        race.began, race.crew.opening_s = 0.0, 1
        race.run()
    assert {0} == {each.renewed for each in told}


def test_what_was_measured_is_told_where_servers_cannot_be_replaced(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By those that there were; the rest of the error probability goes into this last look."""

    def renew(_crew: Crew) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Crew, "renew", renew)
    with a_race(margin=1e-9, budget_s=100, kind=Race) as (race, _, _):
        race.began, race.crew.opening_s = 0.0, 1
        found = race.run()
    assert found.step_time is not None
    assert ("budget", HALF, ("no other servers: [Errno 28] No space left on device",)) == (
        found.stopped,
        found.servers,
        found.notices,
    )
    assert race.spent == statistics.ALPHA


def test_what_starting_servers_takes_is_known_once_they_were_started_together(clock: Clock) -> None:
    """And what learning took; of servers that were alive before the race it is known already, or not at all."""
    with a_race() as (race, told, _):
        race.prepare()
        assert math.inf == race.crew.opening_s
        race.crew.renew()
        assert 0 == race.crew.opening_s
        told[0].learning = lambda: clock.pass_by(3)
        race.prepare()
        assert 3 == race.crew.opening_s


def test_a_generation_that_the_budget_cuts_off_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would count like one of many rounds; the only one does."""
    with a_race(margin=1e-9, budget_s=100) as (race, _, _):
        race.generation()
        monkeypatch.setattr(Dated, "gone", 1.0)
        race.generation()
        assert ([1], [1]) == ([len(each) for each in race.crews], [len(each) for each in race.peaks])
        race.crews, race.peaks = [[]], [[]]
        race.generation()
        assert [1] == [len(each) for each in race.generations]


def test_servers_that_lay_far_out_are_told() -> None:
    """How many, of which side, and what was made of it."""
    with a_race(half=6) as (race, told, _):
        told[7].step_s *= 1.2
        found = race.run()
    assert ("1 of 6 servers of the candidate lay far out: bounded, the interval widened",) == found.notices


def test_a_script_that_ends_is_started_again_and_the_round_with_it() -> None:
    """A user's own script may have few steps: no round is half of one process and half of another."""
    with a_race(slower=1.3, steps_left=10) as (race, told, _):
        found = race.run()
    assert found.step_time is not None
    assert (Size.MORE, True) == (found.step_time.verdict, all(each.begun > FIRST_LOOK for each in told))


def test_a_script_that_ends_before_a_round_does_is_told() -> None:
    """It is not started for ever."""
    with a_race(steps_left=3) as (race, told, _):
        found = race.run()
    assert ("failed", None, ("not measured on the baseline: it has no more steps",)) == (
        found.stopped,
        found.step_time,
        found.notices,
    )
    assert sum(each.begun for each in told) <= (RESTARTS + 1) * 2 * HALF


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Broken("RuntimeError: no"), "not measured on the candidate: RuntimeError: no"),
        (ServerDied(Ended(signal=9)), "not measured on the candidate: a server ended: killed by signal 9"),
        (BrokenPipeError(32, "Broken pipe"), "not measured on the candidate: [Errno 32] Broken pipe"),
    ],
)
def test_what_goes_wrong_is_told_and_ends_the_race(error: Exception, words: str) -> None:
    """At once, and no script goes on."""
    with a_race(error=error) as (race, told, _):
        found = race.run()
    assert ((words,), "failed", None, None) == (found.notices, found.stopped, found.step_time, found.memory)
    assert not any(each.running for each in told)


def test_what_was_not_steady_is_said() -> None:
    """And that no core was free."""
    with a_race(slower=1.3, steady=False, cores=()) as (race, _, _):
        found = race.run()
    assert (
        "12 of 12 processes were still warming up when they were measured",
        "no core could be kept for it: other processes disturb it more",
    ) == found.notices


def test_without_peaks_there_is_no_ratio_of_memory() -> None:
    """Where the system does not tell them."""
    with a_race(slower=1.3, peak_bytes=None) as (race, _, _):
        found = race.run()
    assert (True, None) == (found.step_time is not None, found.memory)


@pytest.mark.parametrize(
    ("step_s", "steps", "lead_in"), [(1e-5, 500, 1), (0.002, 10, 1), (0.005, 4, 1), (0.03, 2, 1), (0.2, 1, 0)]
)
def test_a_block_takes_about_as_long_whatever_a_step_takes(step_s: float, steps: int, lead_in: int) -> None:
    """20 ms, within bounds; a slow step needs no lead-in."""
    with a_race(step_s=step_s) as (race, told, _):
        race.agree_on_blocks()
    assert (steps, {lead_in}) == (race.steps, {each.lead_in for each in told})


def test_one_that_fails_leaves_no_other_at_work() -> None:
    """Whoever ends them all afterwards meets none that is being started."""
    over: list[int] = []

    def task(number: int) -> int:
        if number == 0:
            raise Broken("it")
        time.sleep(0.2)
        over.append(number)
        return number

    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(Broken):
            Crew([], pool).each(task, [1, 0, 2, 3, 4])
        then = list(over)
    assert ([1], [1]) == (then, over)  # the pool has done all that it was given


def test_all_that_was_asked_for_comes_back_in_its_order() -> None:
    """Whoever was done first."""

    def task(number: int) -> int:
        time.sleep(0.02 * number)
        return number

    with ThreadPoolExecutor(3) as pool:
        assert [3, 1, 2] == Crew([], pool).each(task, [3, 1, 2])


def test_what_one_cell_does_not_need_is_left_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 90 seconds for three cells 30 each; one that takes 10 leaves 40 each to the other two."""
    now, given = [0.0], []

    def run(race: Race) -> None:
        given.append((race.key.variant, race.budget_s, race.among))
        now[0] += 10

    @contextmanager
    def nobody(*_: object) -> Iterator[Crew]:
        with ThreadPoolExecutor(1) as pool:
            yield Crew([], pool)

    monkeypatch.setattr("harness.interleave.time.monotonic", lambda: now[0])
    monkeypatch.setattr(interleave, "crew", nobody)
    monkeypatch.setattr(Race, "run", run)
    planned = [a_cell(name) for name in ("one", "two", "three")]
    here = Path()
    stages: list[str] = []
    found = measure(here, here, planned, SETTINGS, budget_s=90, margin=0.01, directory=here, stage=stages.append)
    assert [("one", 30, 6), ("two", 40, 6), ("three", 70, 6)] == given
    assert [name for name, *_ in given] == [key.variant for key in found]
    assert stages[1] == "measuring 1 of 3: scenario/one/cpu, 30 s at most"


def a_cell(variant: str) -> Planned:
    """A cell that would be measured."""
    made = make_variant(variant)
    return Planned(make_cell(variant=variant), make_scenario("scenario", made), made, "key", {}, Action.RUN, "")
