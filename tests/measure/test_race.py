"""Which block comes when, when it is enough, and what is said of it: with runners that were thought up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gradmatrix.judge.verdict import Ended
from gradmatrix.measure import statistics
from gradmatrix.measure.race import FIRST_LOOK, RESTARTS
from gradmatrix.measure.servers import Broken
from gradmatrix.measure.statistics import Size
from gradmatrix.run.server import ServerDied
from tests.racing import HALF, a_race


@pytest.mark.parametrize("half", [1, 2, 3, 5])
def test_every_server_runs_two_blocks_of_a_round_in_an_order_that_is_the_same_backwards(
    half: int,
) -> None:
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
    with a_race(margin=0.05, half=12) as (race, _, _):
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
        race.sets = [[np.exp(np.random.default_rng(1).normal(0, 0.01, (3, 2 * HALF, 2)))]]
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


def test_a_script_that_ends_is_started_again_and_the_round_with_it() -> None:
    """A user's own script may have few steps: no round is half of one process and half of another."""
    with a_race(slower=1.3, steps_left=10) as (race, told, _):
        found = race.run()
    assert found.step_time is not None
    assert (Size.MORE, True) == (
        found.step_time.verdict,
        all(each.begun > FIRST_LOOK for each in told),
    )


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
        (
            ServerDied(Ended(signal=9)),
            "not measured on the candidate: a server ended: killed from outside by signal 9",
        ),
        (
            BrokenPipeError(32, "Broken pipe"),
            "not measured on the candidate: [Errno 32] Broken pipe",
        ),
    ],
)
def test_what_goes_wrong_is_told_and_ends_the_race(error: Exception, words: str) -> None:
    """At once, and no script goes on."""
    with a_race(error=error) as (race, told, _):
        found = race.run()
    assert ((words,), "failed", None, None) == (
        found.notices,
        found.stopped,
        found.step_time,
        found.memory,
    )
    assert not any(each.running for each in told)


def test_what_was_not_steady_is_said() -> None:
    """And that no core was free."""
    with a_race(slower=1.3, steady=False, cores=()) as (race, _, _):
        found = race.run()
    assert (
        "12 of 12 processes were still warming up when they were measured",
        "no core was free for this alone, so other processes disturb it more",
    ) == found.notices


def test_without_peaks_there_is_no_ratio_of_memory() -> None:
    """Where the system does not tell them."""
    with a_race(slower=1.3, peak_bytes=None) as (race, _, _):
        found = race.run()
    assert (True, None) == (found.step_time is not None, found.memory)


@pytest.mark.parametrize(
    ("step_s", "steps", "lead_in"),
    [(1e-5, 500, 1), (0.002, 10, 1), (0.005, 4, 1), (0.03, 2, 1), (0.2, 1, 0)],
)
def test_a_block_takes_about_as_long_whatever_a_step_takes(
    step_s: float, steps: int, lead_in: int
) -> None:
    """20 ms, within bounds; a slow step needs no lead-in."""
    with a_race(step_s=step_s) as (race, told, _):
        race.agree_on_blocks()
    assert (steps, {lead_in}) == (race.steps, {each.lead_in for each in told})
