"""A run with a budget: the order of the stacks, and when the budget is used."""

from __future__ import annotations

import argparse
import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.commands import budget
from gradmatrix.run.budget import GB, Budget, Known, Meter, by_lesson, ordered
from gradmatrix.run.plan import Action
from gradmatrix.run.project import Project
from tests.cli.test_cli import MATRIX, SUMS, write_lock
from tests.factories import make_cell, make_lock, make_record

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.run.plan import Planned

SPRING = dt.datetime(2026, 3, 31, tzinfo=dt.UTC)


def known(name: str, releases: str, recorded_at: dt.datetime | None = None) -> Known:
    """A stack of releases such as ``a1 b2``."""
    return Known(name, frozenset((each[0], each[1:]) for each in releases.split()), recorded_at)


def test_new_releases_come_before_new_pairs_and_these_before_old_records() -> None:
    """A stack that was never run but has nothing new comes before the stale ones."""
    stacks = [
        known("fresh", "a1 b1", SPRING),
        known("stale", "a2 b2", SPRING - dt.timedelta(days=9)),
        known("nothing", "a1 b1"),
        known("pair", "a1 b2"),
        known("release", "a3 b1"),
    ]
    assert ["release", "pair", "nothing", "stale", "fresh"] == by_lesson(stacks)


def test_what_an_earlier_stack_teaches_is_not_new_for_a_later_one() -> None:
    """After the first has met a1 with b1, the one with another pair teaches more."""
    stacks = [known("one", "a1 b1 c1"), known("same", "a1 b1"), known("two", "a1 b2")]
    assert ["one", "two", "same"] == by_lesson(stacks)


def test_what_other_stacks_have_met_is_known() -> None:
    """Stacks that are not asked for count if they have records."""
    stacks = [known("x", "a1 b1"), known("y", "a2 b2 c2")]
    assert ["x", "y"] == by_lesson(stacks, [known("other", "a2 b2 c2", SPRING)])
    assert ["y", "x"] == by_lesson(stacks, [known("other", "a2 b2 c2")])


def test_the_locks_and_the_records_say_what_was_met(tmp_path: Path) -> None:
    """Both stacks have the same release. The one that was judged is stale, whatever its name."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    for stack in ("first", "second"):
        write_lock(tmp_path, make_lock(stack))
    project = Project.at(tmp_path)
    stacks = project.matrix.stacks
    assert ["first", "second"] == [stack.name for stack in ordered(project, stacks)]
    project.store.append(make_record("trains", make_cell("first", "sums", "plain")))
    assert ["second", "first"] == [stack.name for stack in ordered(project, stacks)]


@dataclass
class Cell:
    """All that a meter reads of a planned cell."""

    action: Action


def cells(running: int) -> list[Planned]:
    """So many cells that run, and one that is recorded."""
    actions = [Action.RUN] * running + [Action.KEEP]
    return [Cell(action) for action in actions]  # type: ignore[misc]


class Machine:
    """A clock and a disk that tests set."""

    now, free = 0.0, 100 * GB

    def meter(self, limits: Budget) -> Meter:
        """A meter of this machine."""
        return Meter(limits, lambda: self.free, lambda: self.now)


def test_a_stack_with_too_many_cells_is_passed_over() -> None:
    """A smaller one after it still fits, and one that runs nothing always does."""
    meter = Machine().meter(Budget(cells=10))
    taken = [meter.takes(f"s{count}", cells(count)) for count in (6, 5, 4, 1, 0)]
    assert ([True, False, True, False, True], ["s5", "s1"]) == (taken, meter.left_out)
    assert "2 stacks ran: 10 cells" in str(meter)


@pytest.mark.parametrize("limits", [Budget(time_s=60), Budget(disk_bytes=60 * GB)])
def test_no_stack_begins_if_one_like_those_before_does_not_fit(limits: Budget) -> None:
    """The first one always begins; two took 25 each, so a third would end at 75."""
    machine = Machine()
    meter = machine.meter(limits)
    taken = []
    for name in "abc":
        taken.append(meter.takes(name, cells(1)))
        machine.now += 25
        machine.free -= 25 * GB
    assert ([True, True, False], ["c"]) == (taken, meter.left_out)


def test_a_budget_is_written_as_its_limits() -> None:
    """Each kind at most once."""
    assert Budget(cells=200, time_s=5400, disk_bytes=20 * GB) == budget("200cells, 90m,20GB")
    for text in ("", "0cells", "5", "5m,6m", "3TB"):
        if text != "5":  # seconds
            with pytest.raises(argparse.ArgumentTypeError):
                budget(text)
