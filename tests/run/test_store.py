"""Records on disk."""

from __future__ import annotations

import datetime as dt
import io
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Gradient, Record, Role
from gradmatrix.run.store import Store, decode, encode
from tests.conftest import PATIENCE_S
from tests.factories import (
    NOON,
    make_cell,
    make_observation,
    make_parameter,
    make_raised,
    make_record,
    make_warned,
)

LATER = NOON + dt.timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "journal", tmp_path / "published")


def losses() -> st.SearchStrategy[float | str]:
    """A loss as the protocol carries it."""
    return st.one_of(
        st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["nan", "inf", "-inf"])
    )


def records() -> st.SearchStrategy[Record]:
    """Records with and without an observation, with any text in their messages."""
    letters = st.lists(st.text("nzfx", max_size=4), max_size=3)
    words = st.text()
    observations = st.builds(
        lambda each, loss, text: make_observation(
            parameters=tuple(make_parameter(gradients, name=text) for gradients in each),
            losses=(loss, None),
            raised=make_raised(text),
            warnings=(make_warned(text),),
        ),
        letters,
        losses(),
        words,
    )
    return st.builds(
        lambda message, role, gradient, moment, observation, inputs: make_record(
            message=message,
            role=role,
            gradient=gradient,
            recorded_at=moment,
            observation=observation,
            inputs=inputs,
        ),
        words,
        st.sampled_from(Role),
        st.none() | st.sampled_from(Gradient),
        st.datetimes(timezones=st.just(dt.UTC)),
        st.none() | observations,
        st.dictionaries(words, words, max_size=3),
    )


@given(records())
def test_a_record_survives_its_line(record: Record) -> None:
    """What is read is what was written, and it is one line."""
    line = encode(record)
    assert (record, 1) == (decode(line), len(line.splitlines()))


def test_what_is_appended_is_read(store: Store) -> None:
    """Each cell's record, in the journal of its stack."""
    first, second = make_record(), make_record(cell=make_cell(variant="other"))
    store.append(first)
    store.append(second)
    assert {first.cell: first, second.cell: second} == store.recorded_here("stack")


def test_stacks_have_journals_of_their_own(store: Store) -> None:
    """A stack's journal holds no other stack's cells."""
    store.append(make_record(cell=make_cell(stack="other")))
    assert {} == store.recorded_here("stack")


def test_the_last_line_of_a_cell_wins(store: Store) -> None:
    """Whatever the dates say: a clock that was once ahead hides nothing."""
    ahead, new = make_record("step:exception", recorded_at=LATER), make_record()
    store.append(ahead)
    store.append(new)
    assert {new.cell: new} == store.recorded_here("stack")


NOW = dt.datetime.now(dt.UTC)
DAYS = [NOW - dt.timedelta(days=days) for days in (3, 2, 1)]
AHEAD = NOW + dt.timedelta(days=400)


@pytest.mark.parametrize(
    ("published", "journal", "expected"),
    [
        (DAYS[0], [DAYS[1]], "journal"),
        (DAYS[1], [DAYS[0]], "published"),
        (DAYS[1], [DAYS[1]], "journal"),
        (AHEAD, [DAYS[0]], "journal"),
        (DAYS[1], [DAYS[0], AHEAD], "published"),
        (DAYS[1], [AHEAD, DAYS[2]], "journal"),
        (DAYS[1], [AHEAD], "journal"),
        (AHEAD, [AHEAD], "journal"),
    ],
)
def test_a_date_in_the_future_hides_nothing(
    store: Store, published: dt.datetime, journal: list[dt.datetime], expected: str
) -> None:
    """A published record is newer than the journal's by its date only if that can be true."""
    store.publish("stack", [make_record("step:exception", recorded_at=published)])
    for day in journal:
        store.append(make_record(recorded_at=day))
    outcome = {"published": "step:exception", "journal": "trains"}[expected]
    assert [outcome] == [record.outcome for record in store.everything().values()]
    assert [outcome] == [record.outcome for record in store.of_stack("stack").values()]


def test_a_record_without_a_time_zone_is_skipped(store: Store) -> None:
    """Its time could not be compared with another one."""
    store.append(make_record())
    path = store.journal / "stack.jsonl"
    path.write_bytes(re.sub(rb'("recorded_at":"[^"]*?)(Z|\+00:00)"', rb'\1"', path.read_bytes()))
    assert {} == store.recorded_here("stack")
    assert "stack.jsonl, line 1 was skipped" in store.problems[0]


def test_two_runs_with_one_results_folder_wait_for_each_other(tmp_path: Path) -> None:
    """Also from two checkouts, which have environments of their own."""
    waits, seen = threading.Event(), []

    def hold() -> None:
        with Store(tmp_path, tmp_path).in_use("stack", waits.set):
            seen.append("second")

    with Store(tmp_path, tmp_path).in_use("stack"):
        second = threading.Thread(target=hold)
        second.start()
        assert waits.wait(PATIENCE_S)
        seen.append("first")
    second.join()
    assert ["first", "second"] == seen


def test_everything_takes_the_newer_of_published_and_journal(store: Store) -> None:
    """A checkout starts with the published records and adds its own."""
    mine, theirs = (
        make_record(cell=make_cell(variant="mine")),
        make_record(cell=make_cell(variant="theirs")),
    )
    store.publish(mine.cell.stack, [make_record("step:exception", mine.cell), theirs])
    newer = make_record(cell=mine.cell, recorded_at=LATER)
    store.append(newer)
    assert {mine.cell: newer, theirs.cell: theirs} == store.everything()


def test_what_is_only_published_was_not_recorded_here(store: Store) -> None:
    """A result of another machine does not prevent a cell from running here."""
    store.publish("stack", [make_record()])
    assert {} == store.recorded_here("stack")


@pytest.mark.parametrize("keep", [1, 40, -2])
def test_half_a_line_is_skipped_and_reported(store: Store, keep: int) -> None:
    """A killed run left it. The records around it are read."""
    first, last = make_record(), make_record(cell=make_cell(variant="last"))
    store.append(first)
    path = store.journal / "stack.jsonl"
    path.write_bytes(path.read_bytes() + encode(make_record(cell=make_cell(variant="half")))[:keep])
    store.append(last)
    assert {first.cell: first, last.cell: last} == store.recorded_here("stack")
    assert ["stack.jsonl, line 2 was skipped"] == [
        problem.partition(":")[0] for problem in store.problems
    ]


@pytest.mark.parametrize(
    "line", [b"nonsense", b"{}", b'{"schema": 1}', b"[]", b'{"key": "\xff\xfe"}']
)
def test_a_line_that_is_no_record_is_skipped_and_reported(store: Store, line: bytes) -> None:
    """The line may not even be UTF-8."""
    store.append(make_record())
    path = store.journal / "stack.jsonl"
    path.write_bytes(line + b"\n" + path.read_bytes())
    assert [make_record()] == list(store.recorded_here("stack").values())
    assert ["stack.jsonl, line 1 was skipped"] == [
        problem.partition(":")[0] for problem in store.problems
    ]


def test_a_record_of_another_schema_is_refused_with_its_number(store: Store) -> None:
    """It is not taken for a broken line, even if its keys are unknown."""
    store.journal.mkdir()
    (store.journal / "stack.jsonl").write_bytes(b'{"schema": 7, "colour": "blue"}\n')
    assert {} == store.recorded_here("stack")
    assert [
        "stack.jsonl, line 1 was skipped: it has schema 7, this release reads 1"
    ] == store.problems


def test_empty_lines_are_no_problem(store: Store) -> None:
    """Nothing is read and nothing is reported."""
    store.append(make_record())
    path = store.journal / "stack.jsonl"
    path.write_bytes(b"\n" + path.read_bytes() + b"\n\n")
    assert ([make_record()], []) == (list(store.recorded_here("stack").values()), store.problems)


def test_published_records_have_a_stable_order(store: Store) -> None:
    """They are sorted by cell."""
    cells = [
        make_cell(scenario=s, variant=v, device=d)
        for s in "ba"
        for v in "dc"
        for d in ("cuda", "cpu")
    ]
    store.publish("stack", [make_record(cell=cell) for cell in cells])
    lines = (store.published / "stack.jsonl").read_bytes().splitlines()
    assert sorted(cells) == [decode(line).cell for line in lines]


def test_publishing_what_was_published_changes_no_byte(store: Store) -> None:
    """The second time the records come from the first file, in another order."""
    store.publish("one", [make_record(cell=make_cell("one", variant=v)) for v in "abc"])
    files = sorted(store.published.iterdir())
    before = [(path.name, path.read_bytes(), path.stat().st_mtime_ns) for path in files]
    store.publish("one", reversed(store.everything().values()))
    assert before == [(path.name, path.read_bytes(), path.stat().st_mtime_ns) for path in files]


def test_publishing_leaves_no_partial_file(store: Store) -> None:
    """Only the stacks' files are there."""
    store.publish("stack", [make_record()])
    assert ["stack.jsonl"] == [path.name for path in store.published.iterdir()]


def test_an_unknown_outcome_is_skipped_and_reported(store: Store) -> None:
    """A newer release or a person wrote it."""
    store.append(make_record())
    path = store.journal / "stack.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"trains"', b'"step:bored"') + path.read_bytes())
    assert [make_record()] == list(store.everything().values())
    assert ["stack.jsonl, line 1 was skipped: the outcome 'step:bored' is unknown"] == [
        problem.rpartition(": 'step:bored'")[0] for problem in store.problems
    ]


def test_a_line_that_is_taken_in_parts_is_written_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write may stop early on a nearly full disk."""

    class Reluctant(io.FileIO):
        """Takes seven bytes at a time."""

        def write(self, content: Any, /) -> int:  # noqa: ANN401  (whatever has bytes)
            return super().write(content[:7])

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda path, mode, **_: Reluctant(path, mode))
        store.append(make_record())
    assert [make_record()] == list(store.recorded_here("stack").values())


@pytest.mark.parametrize("outcome", ["setup:no-device", "install:network", "process:lost"])
def test_a_record_about_the_machine_does_not_hide_one_about_the_stack(
    tmp_path: Path, outcome: str
) -> None:
    """A run on a machine without a GPU keeps what one with a GPU has published."""
    store = Store(tmp_path / "journal", tmp_path / "published")
    judged = make_record()
    later = make_record(outcome, passed=None, recorded_at=judged.recorded_at + dt.timedelta(days=1))
    store.publish("stack", [judged])
    store.append(later)
    assert [judged] == list(store.everything().values())
    assert [later] == list(store.recorded_here(judged.cell.stack).values())


def test_records_of_another_schema_are_not_written_over(store: Store) -> None:
    """Another release wrote them. This one cannot read them and must not lose them."""
    store.published.mkdir(parents=True)
    path = store.published / "stack.jsonl"
    foreign = b'{"schema":2,"cell":"somehow"}\n'
    path.write_bytes(encode(make_record()) + foreign)
    records = store.of_stack("stack").values()
    with pytest.raises(
        UserError, match="cannot be published again: line 2: it has schema 2, this release reads 1"
    ):
        store.publish("stack", records)
    assert encode(make_record()) + foreign == path.read_bytes()
    assert [
        "stack.jsonl, line 2 was skipped: it has schema 2, this release reads 1"
    ] == store.problems


def test_a_published_line_that_was_cut_off_is_reported(store: Store) -> None:
    """The other lines are read. The problem is reported once, even if the file is read often."""
    store.published.mkdir(parents=True)
    whole = encode(make_record())
    (store.published / "stack.jsonl").write_bytes(whole + whole[:100])
    assert [make_record()] == list(store.of_stack("stack").values())
    store.of_stack("stack")
    assert ["stack.jsonl, line 2 was skipped: Input data was truncated"] == store.problems


def test_a_record_of_another_stack_is_skipped_and_reported(store: Store) -> None:
    """A file belongs to one stack, whatever name a record has."""
    theirs = make_record(cell=make_cell("../other"))
    store.publish("stack", [make_record(), theirs])
    assert [make_record()] == list(store.of_stack("stack").values())
    assert ["stack.jsonl, line 1 was skipped: it is of the stack ../other"] == store.problems


def test_a_file_that_is_current_is_not_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records that were read are the ones that would be written."""
    store.publish("stack", [make_record()])
    encoded: list[Record] = []
    monkeypatch.setattr("gradmatrix.run.store.encode", encoded.append)
    store.publish("stack", store.of_stack("stack").values())
    assert [] == encoded


def test_a_line_that_could_not_be_read_stays(store: Store) -> None:
    """It stays at the end for a person to repair. Publishing again neither loses nor repeats it."""
    store.publish("stack", [make_record()])
    path = store.published / "stack.jsonl"
    cut = path.read_bytes()[:50]
    path.write_bytes(cut + b"\n" + path.read_bytes())
    later = make_record("update:none", recorded_at=NOON + dt.timedelta(hours=1))
    for _ in range(2):
        store.of_stack("stack")
        store.publish("stack", [later])
        assert encode(later) + cut + b"\n" == path.read_bytes()
    assert store.is_damaged


def test_a_cell_that_was_settled_again_keeps_its_record(store: Store) -> None:
    """The new line would differ in its time only. Another key, outcome or message counts as new."""
    settled = make_record("setup:unsupported", passed=None, observation=None, message="needs trl")
    again = replace(settled, recorded_at=NOON + dt.timedelta(hours=1))
    moved = replace(again, key="other", recorded_at=NOON + dt.timedelta(hours=2))
    store.publish("stack", [settled])
    store.append(again)
    assert [settled] == list(store.of_stack("stack").values())
    store.append(moved)
    assert [moved] == list(store.of_stack("stack").values())
