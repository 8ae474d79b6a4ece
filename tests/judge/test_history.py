"""What becomes an entry in the history of a cell, and what does not."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.core.model import Failure, Gradient, Role
from gradmatrix.judge.history import Entry, changes, locked, newest
from gradmatrix.run.confirmed import confirmed
from tests.factories import NOON, make_cell, make_lock, make_observation, make_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradmatrix.core.model import Cell, Record

INPUTS = {
    "lock": "1" * 16,
    "observer": "o1",
    "judge": "j1",
    "device": "Linux-x86_64",
    "timeout_s": "120",
}
LATER = NOON + dt.timedelta(days=1)


def a_record(
    outcome: str = "trains", at: dt.datetime = NOON, *, key: str = "key", **inputs: str
) -> Record:
    """A record with inputs; the named ones differ from the usual."""
    return make_record(outcome, recorded_at=at, key=key, inputs={**INPUTS, **inputs})


def history(*publications: Sequence[Record], with_records: bool = True) -> list[Entry]:
    """The entries after each was published. ``with_records`` keeps the earlier records."""
    entries: list[Entry] = []
    before: dict[Cell, Record] = {}
    had: set[str] = set()
    for number, records in enumerate(publications):
        published = NOON + dt.timedelta(days=number)
        entries += changes(newest(entries), records, before=before, had=had, published=published)
        had |= {record.lock for record in records}
        if with_records:
            before = {record.cell: record for record in records}
    return entries


def test_the_first_publication_of_a_cell_is_an_entry_without_a_change() -> None:
    """It has everything that a page shows."""
    [entry] = history([a_record()])
    told = (
        entry.cell,
        entry.at,
        entry.outcome,
        entry.passed,
        entry.gradient,
        entry.lock,
        entry.changed,
    )
    assert (make_cell(), NOON, "trains", True, Gradient.FLOWING, "1" * 16, ()) == told


def test_the_rate_is_the_median_of_the_timed_steps() -> None:
    """The cell trains; its steps take 1/8, 1/4, 1/4 and 1/2 of a second."""
    broken = make_record("step:exception", observation=make_observation())
    assert [4.0, None] == [history([record])[0].rate for record in (a_record(), broken)]


def test_the_same_record_again_is_no_entry() -> None:
    """Publishing is often repeated."""
    assert 1 == len(history([a_record()], [a_record()]))


@pytest.mark.parametrize(
    "after",
    [
        a_record("step:exception", LATER),
        msgspec.structs.replace(a_record("trains", LATER), gradient=Gradient.PARTIAL),
        a_record("trains", LATER, key="other", device="Linux-aarch64"),
        msgspec.structs.replace(a_record("trains", LATER), role=Role.REMEDY),
    ],
    ids=["outcome", "gradient", "device", "role"],
)
def test_another_verdict_machine_or_role_is_an_entry(after: Record) -> None:
    """A reader looks for the change of a verdict."""
    assert after.recorded_at == history([a_record()], [after])[1].at


def test_a_moved_lock_alone_is_no_entry() -> None:
    """Most nights a package moves, and nothing else changes."""
    assert 1 == len(history([a_record()], [a_record(at=LATER, key="other", lock="2" * 16)]))


def test_a_changed_verdict_comes_after_the_last_lock_with_the_old_one() -> None:
    """The packages that moved are those between these two locks."""
    first, last = a_record(), a_record("step:exception", NOON + dt.timedelta(2), lock="3" * 16)
    second = confirmed(first, a_record(at=LATER, lock="2" * 16))
    told = [
        (each.lock[0], each.outcome, each.changed) for each in history([first], [second], [last])
    ]
    assert [
        ("1", "trains", ()),
        ("2", "trains", ("lock",)),
        ("3", "step:exception", ("lock",)),
    ] == told


def test_a_confirmed_verdict_has_no_speed_in_the_history() -> None:
    """The record that stands was measured with another lock."""
    first, last = a_record(), a_record("step:exception", NOON + dt.timedelta(2), lock="3" * 16)
    newer = a_record(at=LATER, lock="2" * 16)
    second = history([first], [confirmed(first, newer)], [last])[1]
    assert (LATER, None) == (second.at, second.rate)


def test_a_lock_that_comes_back_is_an_entry() -> None:
    """A failure that stays although the old lock is back is not the lock's."""
    broken = [
        a_record("step:exception", NOON + dt.timedelta(days=day), key=lock, lock=lock * 16)
        for day, lock in enumerate("21", 1)
    ]
    assert ["1", "2", "1"] == [
        each.lock[0] for each in history([a_record()], *([each] for each in broken))
    ]


def test_our_own_change_alone_is_no_entry() -> None:
    """A new observer touches every cell of every stack and says nothing about any."""
    assert 1 == len(history([a_record()], [a_record(at=LATER, key="other", observer="o2")]))


def test_changed_inputs_are_named() -> None:
    """The parts of the key that changed are named."""
    after = a_record("step:exception", LATER, key="other", lock="2" * 16, judge="j2")
    assert ("lock", "judge") == history([a_record()], [after])[1].changed


def test_our_own_change_that_changed_nothing_is_not_blamed_later() -> None:
    """The observer changed a day before the lock. The new verdict came with the lock."""
    between = a_record(at=LATER, key="between", observer="o2")
    last = a_record(
        "step:exception", LATER + dt.timedelta(days=1), key="last", observer="o2", lock="2" * 16
    )
    assert ("lock",) == history([a_record()], [between], [last])[1].changed


def test_without_the_previous_record_its_entry_shows_what_changed() -> None:
    """It has the lock, the machine, and whether our own code differs."""
    after = a_record("step:exception", LATER, key="other", observer="o2", lock="2" * 16)
    assert ("lock", "measurement") == history([a_record()], [after], with_records=False)[1].changed


def test_another_build_of_torch_is_a_change_where_both_ran() -> None:
    """A cell that did not run has no machine."""
    cuda, nowhere = (
        msgspec.structs.replace(a_record("step:exception", LATER, key="other"), build=build)
        for build in ("cuda", "")
    )
    assert [("build",), ()] == [
        history([a_record()], [after])[1].changed for after in (cuda, nowhere)
    ]


def test_a_limit_counts_where_it_was_met() -> None:
    """A shorter timeout is the reason for a timeout only."""
    late, broken = (
        a_record(outcome, LATER, key="o", timeout_s="1")
        for outcome in ("process:timeout", "step:exception")
    )
    assert [("timeout_s",), ()] == [
        history([a_record()], [after])[1].changed for after in (late, broken)
    ]


@pytest.mark.parametrize("outcome", ["setup:no-device", "install:network", "process:lost"])
def test_what_speaks_of_a_machine_is_no_entry(outcome: str) -> None:
    """It is no first entry of a cell, and no entry after a verdict."""
    spurious = make_record(outcome, passed=None, recorded_at=LATER)
    assert (0, 1) == (len(history([spurious])), len(history([a_record()], [spurious])))


def test_a_feature_that_a_stack_lacks_is_an_entry() -> None:
    """It says something about the stack."""
    assert ["trains", "setup:unsupported"] == [
        each.outcome
        for each in history(
            [a_record()], [make_record("setup:unsupported", passed=None, recorded_at=LATER)]
        )
    ]


def test_a_record_older_than_the_entry_is_passed_over() -> None:
    """A checkout of an older day publishes nothing new."""
    older = a_record("step:exception", NOON - dt.timedelta(hours=1))
    assert 1 == len(history([a_record()], [older]))


def test_an_entry_dated_ahead_of_its_publication_hides_no_later_record() -> None:
    """A clock was once ahead: what was published cannot have been recorded after that."""
    ahead = a_record(at=NOON + dt.timedelta(days=400))
    later = a_record("step:exception", NOON + dt.timedelta(days=1), key="other", lock="2" * 16)
    assert ["trains", "step:exception"] == [each.outcome for each in history([ahead], [later])]


def test_a_cell_that_left_the_matrix_is_gone_once() -> None:
    """What was last known of it is kept."""
    other = make_record(cell=make_cell(variant="other"))
    entries = history([a_record(), other], [other], [other])
    assert [("plain", True, "trains")] == [(e.cell.variant, e.gone, e.outcome) for e in entries[2:]]


def test_a_cell_that_comes_back_has_an_entry() -> None:
    """A record from before it left makes no difference."""
    other = make_record(cell=make_cell(variant="other"))
    assert [False, True, False] == [
        each.gone
        for each in history([a_record(), other], [other], [a_record(), other])
        if each.cell.variant == "plain"
    ]


def test_where_nothing_is_published_of_a_stack_nothing_is_gone() -> None:
    """The records of that stack are in another place."""
    assert 1 == len(history([a_record()], []))


def test_a_rejudged_record_is_an_entry() -> None:
    """Relations between variants are judged when cells are published."""
    [_, entry] = history([a_record()], [a_record("relation:disagrees")])
    assert ("relation:disagrees", ()) == (entry.outcome, entry.changed)


def test_a_lock_is_kept_with_its_versions() -> None:
    """The digits are those of the records."""
    kept = locked(make_lock(versions={"torch": "2.6.0", "trl": "0.15.2"}))
    assert kept is not None
    assert ({"torch": "2.6.0", "trl": "0.15.2"}, "0123456789abcdef") == (kept.packages, kept.digest)


def test_a_stack_without_a_solution_has_no_versions_to_keep() -> None:
    """The entries of its cells show that."""
    assert locked(make_lock(failure=Failure(outcome="resolve:conflict", message="no"))) is None
