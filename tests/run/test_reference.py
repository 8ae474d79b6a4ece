"""The reference: fixed work between timed cells."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gradmatrix.judge.verdict import Ended
from gradmatrix.run import reference
from gradmatrix.run.server import Answer
from gradmatrix.run.store import decode, encode
from tests.factories import make_observation, make_record
from tests.pretended import EVERYTHING, World, make_run, pretend

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Reference
    from gradmatrix.run.stack import StackRun


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Every stack is installed and every cell trains, unless a test says otherwise."""
    return pretend(monkeypatch)


def references(run: StackRun) -> dict[str, Reference]:
    """The recorded reference of each variant that has one."""
    recorded = run.store.recorded_here("stack")
    return {cell.variant: found.reference for cell, found in recorded.items() if found.reference}


def test_samples_take_time_and_leave_the_garbage_collector_on() -> None:
    """Each sample has its own time."""
    times_s = reference.sample()
    assert (True, reference.SAMPLES) == (gc.isenabled(), len(times_s))
    assert all(each > 0 for each in times_s)


def test_it_runs_before_and_after_each_timed_cell(tmp_path: Path, world: World) -> None:
    """What ran after a cell is what ran before the next one."""
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    found = references(run)
    assert ["a", "b", "c"] == sorted(found)
    first, second, last = (found[name] for name in "abc")
    assert {reference.program()} == {each.program for each in (first, second, last)}
    assert (first.after_s, second.after_s) == (second.before_s, last.before_s)
    assert first.before_s != first.after_s
    assert ["one/a", "one/b", "two/c"] == world.asked


def test_a_cell_without_step_times_has_none(tmp_path: Path, world: World) -> None:
    """The work runs for timed cells only."""
    world.answers["b"] = [Answer(make_observation(step_times_s=()), Ended(exit=0), wall_s=0.5)]
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    found = references(run)
    assert ["a", "c"] == sorted(found)
    assert found["a"].after_s == found["c"].before_s


def test_a_processor_says_nothing_about_a_gpu(tmp_path: Path, world: World) -> None:
    """Cells on CUDA have no reference."""
    run = replace(make_run(tmp_path), devices={"cuda": "some GPU"})
    run.execute(EVERYTHING)
    assert "one/a" in world.asked
    assert not references(run)


def test_a_record_without_one_stays_as_it_is() -> None:
    """Older records are read, and written as they were."""
    line = encode(make_record())
    assert "reference" not in json.loads(line)
    assert line == encode(decode(line))
