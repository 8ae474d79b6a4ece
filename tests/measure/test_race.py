"""The order of blocks, when a measurement ends, and what it reports, with simulated servers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gradmatrix.judge.verdict import Ended
from gradmatrix.measure import statistics
from gradmatrix.measure.race import FIRST_LOOK, KILLS, RESTARTS
from gradmatrix.measure.servers import Broken, Killed
from gradmatrix.measure.statistics import Size
from gradmatrix.run.server import ServerDied
from tests.racing import HALF, a_race


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generation has as many rounds on a busy machine as on an idle one, so the same noise."""
    monkeypatch.setattr("gradmatrix.measure.race.time.monotonic", lambda: 0.0)


@pytest.mark.parametrize("half", [1, 2, 3, 5])
def test_every_server_runs_two_blocks_of_a_round_in_an_order_that_is_the_same_backwards(
    half: int,
) -> None:
    """A machine that slows down steadily then slows all servers equally."""
    with a_race(half=half) as (race, _, log):
        race.steps = 4
        times = race.round()
    assert sorted(log) == sorted([*range(2 * half)] * 2)
    assert log == log[::-1]
    assert times.shape == (2 * half, 2)


def test_the_sides_alternate_within_a_round() -> None:
    """The order is A B B A A B and back. One of each pair is the baseline's."""
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
    """The first server of a round is random."""
    with a_race() as (race, _, log):
        race.steps = 4
        firsts = []
        for _ in range(60):
            log.clear()
            race.round()
            firsts.append(log[0])
    assert set(range(2 * HALF)) == set(firsts)


def test_a_clear_difference_stops_the_race_at_the_first_look() -> None:
    """Most of the budget is left."""
    with a_race(slower=1.3) as (race, _, _):
        found = race.run()
    assert found.step_time is not None
    assert (Size.MORE, "clear", FIRST_LOOK) == (
        found.step_time.verdict,
        found.stopped,
        len(race.generations),
    )
    assert pytest.approx(1.3, rel=0.01) == found.step_time.ratio


def test_a_candidate_that_is_faster_is_called_faster() -> None:
    """This is the opposite direction."""
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
    """The result may come from one generation of one round, if there was no time for more."""
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
    """Each look gets what became free since the last one. The sum stays within the whole."""
    with a_race() as (race, _, _):
        race.sets = [[np.exp(np.random.default_rng(1).normal(0, 0.01, (3, 2 * HALF, 2)))]]
        confidences = [1 - race.look(gone).confidence for gone in (0.2, 0.5, 1.0)]
    assert pytest.approx(statistics.ALPHA) == sum(confidences)
    assert pytest.approx(statistics.spent(0.2)) == confidences[0]
    assert race.spent == statistics.ALPHA


def test_one_server_of_each_side_finds_out_what_the_others_import() -> None:
    """The two sides have different packages."""
    with a_race() as (race, simulated, _):
        race.prepare()
    assert [1, 0, 0, 1, 0, 0] == [each.scouts for each in simulated]
    lines = [b"what 0 imported", b"what 3 imported"]
    assert [[lines[0]]] * 3 + [[lines[1]]] * 3 == [each.learned for each in simulated]


def test_every_generation_has_new_processes() -> None:
    """No process is left at the end."""
    with a_race(slower=1.3) as (race, simulated, _):
        found = race.run()
    assert [FIRST_LOOK] * 2 * HALF == [each.begun for each in simulated]
    assert [False] * 2 * HALF == [each.running for each in simulated]
    assert found.processes == HALF * FIRST_LOOK


def test_a_script_that_ends_is_started_again_and_the_round_with_it() -> None:
    """A user's script may have few steps. No round mixes two processes."""
    with a_race(slower=1.3, steps_left=10) as (race, simulated, _):
        found = race.run()
    assert found.step_time is not None
    assert (Size.MORE, True) == (
        found.step_time.verdict,
        all(each.begun > FIRST_LOOK for each in simulated),
    )


def test_a_script_that_ends_before_a_round_does_is_reported() -> None:
    """It is started again a few times only."""
    with a_race(steps_left=3) as (race, simulated, _):
        found = race.run()
    assert ("failed", None, ("not measured on the baseline: it has no more steps",)) == (
        found.stopped,
        found.step_time,
        found.notices,
    )
    assert sum(each.begun for each in simulated) <= (RESTARTS + 1) * 2 * HALF


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Broken("RuntimeError: no"), "not measured on the candidate: RuntimeError: no"),
        (
            ServerDied(Ended(signal=11)),
            "not measured on the candidate: a server ended: killed by signal 11",
        ),
        (
            BrokenPipeError(32, "Broken pipe"),
            "not measured on the candidate: [Errno 32] Broken pipe",
        ),
    ],
)
def test_what_goes_wrong_is_reported_and_ends_the_race(error: Exception, words: str) -> None:
    """It ends at once, and no script runs on."""
    with a_race(error=error) as (race, simulated, _):
        found = race.run()
    assert ((words,), "failed", None, None) == (
        found.notices,
        found.stopped,
        found.step_time,
        found.memory,
    )
    assert not any(each.running for each in simulated)


@pytest.mark.parametrize(
    "error", [Killed("killed from outside by signal 9"), ServerDied(Ended(signal=9))]
)
def test_what_something_outside_killed_is_measured_again(error: Exception) -> None:
    """The generation does not count, and a notice says so."""
    with a_race(slower=1.3) as (race, simulated, _):
        simulated[1].error, simulated[1].errors = error, 2
        found = race.run()
    assert ("clear", FIRST_LOOK, FIRST_LOOK + 2) == (
        found.stopped,
        len(race.generations),
        simulated[1].begun,
    )
    assert (
        "something outside killed a process 2 times; "
        "what ran at the same time was measured again" in found.notices
    )


def test_what_is_killed_each_time_is_not_measured() -> None:
    """It is tried a few times only."""
    with a_race() as (race, simulated, _):
        simulated[1].error = Killed("killed from outside by signal 9")
        found = race.run()
    assert (None, "failed", KILLS + 1) == (found.step_time, found.stopped, simulated[1].begun)
    assert found.notices[0].endswith(": killed from outside by signal 9")


def test_a_crash_is_not_measured_again() -> None:
    """A signal that the process itself raised is a fault of the stack."""
    with a_race(error=ServerDied(Ended(signal=11))) as (race, simulated, _):
        race.run()
    assert max(each.begun for each in simulated) == 1


def test_what_was_not_steady_is_said() -> None:
    """The notice that no core was free comes too."""
    with a_race(slower=1.3, steady=False, cores=()) as (race, _, _):
        found = race.run()
    assert (
        "12 of 12 processes were still warming up when they were measured",
        "no core was free for this alone, so other processes disturb it more",
    ) == found.notices


def test_without_peaks_there_is_no_ratio_of_memory() -> None:
    """The system does not report them."""
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
    """It takes 20 ms, within bounds. A slow step needs no lead-in."""
    with a_race(step_s=step_s) as (race, simulated, _):
        race.agree_on_blocks()
    assert (steps, {lead_in}) == (race.steps, {each.lead_in for each in simulated})


def test_without_forks_every_process_is_a_server() -> None:
    """Three places of servers with four generations are twelve servers of each side."""
    with a_race(margin=0.05, fork=False) as (race, _, _):
        found = race.run()
    assert found.step_time is not None
    assert (Size.SAME, True) == (found.step_time.verdict, len(race.generations) >= 4)


def test_a_difference_within_the_margin_is_not_clear() -> None:
    """It is probably there: the measurement goes on until the budget is spent."""
    with a_race(slower=1.03, margin=0.03) as (race, _, _):
        found = race.run()
    assert found.step_time is not None
    assert (Size.PROBABLY_MORE, "budget") == (found.step_time.verdict, found.stopped)
