"""Servers that are started when needed and again when lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.launch import Answer
from harness.pool import ATTEMPTS
from harness.verdict import Ended
from tests.factories import make_cell, make_observation, make_raised
from tests.pretended import EVERYTHING, World, make_run, outcomes, pretend

if TYPE_CHECKING:
    from pathlib import Path

LOST = Answer(None, Ended(lost=True), wall_s=0.125)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which every stack is installed and every cell trains, unless told otherwise."""
    return pretend(monkeypatch)


def test_a_lost_cell_is_tried_again(tmp_path: Path, world: World) -> None:
    """With a new server: the old one is gone."""
    world.answers["b"] = [LOST]
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("trains", ["one/a", "one/b", "one/b", "two/c"], 2) == (outcomes(run)["b"], world.asked, len(world.started))


def test_a_cell_that_stays_lost_is_recorded_as_lost(tmp_path: Path, world: World) -> None:
    """After a few attempts; the other cells are run."""
    world.answers["b"] = [LOST] * ATTEMPTS
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("process:lost", "trains", ATTEMPTS) == (outcomes(run)["b"], outcomes(run)["c"], world.asked.count("one/b"))


def test_a_lost_process_that_left_an_observation_is_not_tried_again(tmp_path: Path, world: World) -> None:
    """What was written down happened."""
    world.answers["b"] = [Answer(make_observation(), Ended(lost=True), wall_s=0.5)]
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("trains", 1) == (outcomes(run)["b"], world.asked.count("one/b"))


def test_a_scenario_that_cannot_be_imported_fails_alone(tmp_path: Path, world: World) -> None:
    """Its cells are not asked for."""
    world.raises["one"] = make_raised("No module named 'rich'", "ModuleNotFoundError")
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("import:missing-module", "import:missing-module", "trains") == tuple(outcomes(run)[name] for name in "abc")
    record = run.store.recorded_here("stack")[make_cell(scenario="one", variant="a")]
    assert ("ModuleNotFoundError: No module named 'rich'", "none") == (record.message, record.isolation)
    assert ["two/c"] == world.asked


def test_an_import_that_raises_something_else_is_an_exception(tmp_path: Path, world: World) -> None:
    """A module that is there and does not work."""
    world.raises["two"] = make_raised("cannot import name 'x'", "ImportError")
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert "import:exception" == outcomes(run)["c"]


def test_a_scenario_whose_import_ends_the_process_fails_alone(tmp_path: Path, world: World) -> None:
    """The others share a server without it."""
    world.kills["one"] = Ended(signal=11)
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("process:signal-11", "process:signal-11", "trains") == tuple(outcomes(run)[name] for name in "abc")
    assert [["one", "two"], ["one"], ["two"]] == world.started
    record = run.store.recorded_here("stack")[make_cell(scenario="one", variant="a")]
    assert "while importing: killed by signal 11" == record.message


def test_fresh_isolation_gives_every_cell_a_process(tmp_path: Path, world: World) -> None:
    """Which imports the cell's own scenario only, and is not forked."""
    run = make_run(tmp_path, isolation="fresh")
    run.execute(EVERYTHING)
    assert ([["one"], ["one"], ["two"]], [False] * 3) == (world.started, world.forks)
    assert {"fresh", "none"} == {record.isolation for record in run.store.recorded_here("stack").values()}
