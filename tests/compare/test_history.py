"""The history on disk: appended to, never rewritten."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradmatrix.compare import history
from gradmatrix.core.errors import UserError
from tests.factories import NOON, make_cell, make_lock, make_record, make_scenario, make_variant

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Record

OLD, NEW = (
    make_lock(digest=digit * 64, versions={"torch": version})
    for digit, version in (("1", "2.6"), ("2", "2.7"))
)
DAYS = tuple(NOON + dt.timedelta(days=number) for number in range(5))
OUTCOMES = st.sampled_from(
    ["trains", "step:exception", "gradient:none", "setup:unsupported", "install:network"]
)


def a_record(outcome: str = "trains", day: int = 0, lock: str = "1", **inputs: str) -> Record:
    """The record of a day, run under a lock."""
    inputs = {"lock": lock * 16, "device": "Linux-x86_64", **inputs}
    passed = None if outcome in ("setup:unsupported", "install:network") else outcome == "trains"
    return make_record(
        outcome, passed=passed, recorded_at=DAYS[day], inputs=inputs, key=repr(inputs)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A history of one stack that regressed when its lock moved."""
    folder = tmp_path / "history"
    history.update(folder, OLD, [a_record()], now=DAYS[0])
    history.update(folder, NEW, [a_record("step:exception", 1, "2")], now=DAYS[1])
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_publication_appends_its_changes(folder: Path) -> None:
    """A line for each entry, and one for each lock."""
    lines = {name: len(content.splitlines()) for name, content in contents(folder).items()}
    assert {"stack.jsonl": 2, "locks/stack.jsonl": 2} == lines


def test_update_returns_what_it_appended(tmp_path: Path) -> None:
    """The same entries as are read later."""
    update = history.update(tmp_path, OLD, [a_record()], now=NOON)
    assert update.entries == history.load(tmp_path).entries


def test_publishing_twice_changes_no_file(folder: Path) -> None:
    """Neither its content nor its date."""
    before = contents(folder), [path.stat().st_mtime_ns for path in folder.rglob("*")]
    history.update(folder, NEW, [a_record("step:exception", 1, "2")], now=DAYS[2])
    assert before == (contents(folder), [path.stat().st_mtime_ns for path in folder.rglob("*")])


def test_written_lines_are_never_changed(folder: Path) -> None:
    """A later publication only appends."""
    before = contents(folder)
    history.update(folder, OLD, [a_record(day=2)], now=DAYS[2])
    assert contents(folder)["stack.jsonl"].startswith(before["stack.jsonl"])


def test_a_flip_names_the_packages_that_moved_between_published_locks(folder: Path) -> None:
    """The lock of today is not needed for that."""
    assert ["", "The stack's lock moved: torch 2.6 → 2.7."] == [
        flip.why for flip in history.load(folder).flips
    ]


def test_a_cell_that_fails_now_and_passed_with_the_lock_before_regressed(folder: Path) -> None:
    """On any stack."""
    assert [make_cell()] == [each.now.cell for each in history.load(folder).regressions]


@pytest.mark.parametrize(
    ("stack", "scenario", "variant", "expected"),
    [
        ("stack", "scenario", "plain", 1),
        ("another", "scenario", "plain", 0),
        ("stack", "another", "plain", 0),
        ("stack", "scenario", "another", 0),
    ],
)
def test_a_regression_stands_while_its_cell_is_in_the_matrix(
    folder: Path, stack: str, scenario: str, variant: str, expected: int
) -> None:
    """A stack, scenario or variant that left the matrix has no regressions."""
    scenarios = [make_scenario(scenario, make_variant(variant))]
    assert expected == len(history.load(folder).standing({stack}, scenarios))


def test_a_change_of_our_code_is_found_in_the_records_published_before(tmp_path: Path) -> None:
    """It had no entry, and is not named as a cause of a change that the lock made a day later."""
    history.update(tmp_path / "history", OLD, [a_record()], now=DAYS[0])
    published = [a_record(day=1, observer="other")]
    last = a_record("step:exception", 2, "2", observer="other")
    update = history.update(
        tmp_path / "history", NEW, [last], published_before=published, now=DAYS[2]
    )
    assert [("lock",)] == [entry.changed for entry in update.entries]


def test_the_latest_changes_are_those_of_one_publication(folder: Path) -> None:
    """A run publishes its stacks one after the other. The day before is another publication."""
    other = make_lock("other", digest="1" * 64)
    record = msgspec.structs.replace(a_record(day=1), cell=make_cell("other"))
    history.update(folder, other, [record], now=DAYS[1] + dt.timedelta(minutes=20))
    history.update(
        folder, other, [msgspec.structs.replace(record, inputs={"lock": "9"})], now=DAYS[4]
    )
    changed = [(flip.cell.stack, flip.kind) for flip in history.load(folder).latest_changes()]
    assert [("stack", "regressed"), ("other", "new")] == changed


def test_without_a_folder_the_history_is_empty(tmp_path: Path) -> None:
    """This is not an error."""
    empty = history.load(tmp_path / "nowhere")
    assert ((), (), ()) == (empty.flips, empty.latest_changes(), empty.regressions)


def test_half_a_line_is_reported_and_the_next_one_is_complete(folder: Path) -> None:
    """A process may end while it writes."""
    path = folder / "stack.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    update = history.update(folder, NEW, [a_record("gradient:none", 2, "2")], now=DAYS[2])
    read = history.load(folder)
    assert [["trains", "gradient:none"], 3] == [
        [e.outcome for e in read.entries],
        len(path.read_bytes().splitlines()),
    ]
    assert (["history of stack, line 2 was skipped"], update.problems) == (
        [problem.partition(":")[0] for problem in read.problems],
        read.problems,
    )


@pytest.mark.parametrize("line", [b"nonsense", b"{}", b'{"schema": 1}', b"\xff\xfe", b"[]"])
def test_a_line_that_is_not_an_entry_is_reported_and_skipped(folder: Path, line: bytes) -> None:
    """Also bytes that are not UTF-8."""
    path = folder / "stack.jsonl"
    path.write_bytes(line + b"\n\n" + path.read_bytes())
    read = history.load(folder)
    assert (2, ["history of stack, line 1 was skipped"]) == (
        len(read.entries),
        [problem.partition(":")[0] for problem in read.problems],
    )


def test_an_entry_without_a_time_zone_is_reported_and_skipped(folder: Path) -> None:
    """It cannot be compared with the others."""
    path = folder / "stack.jsonl"
    path.write_bytes(path.read_bytes().replace(b'Z"', b'"', 1))
    read = history.load(folder)
    assert (1, ["history of stack, line 1 was skipped"]) == (
        len(read.entries),
        [problem.partition(":")[0] for problem in read.problems],
    )


def test_an_unknown_outcome_is_reported_and_skipped(folder: Path) -> None:
    """A newer release or a person wrote it."""
    path = folder / "stack.jsonl"
    path.write_bytes(path.read_bytes().replace(b"step:exception", b"step:bored"))
    read = history.load(folder)
    assert (
        1,
        ("history of stack: entries with the unknown outcome 'step:bored' were skipped",),
    ) == (
        len(read.entries),
        read.problems,
    )


@pytest.mark.parametrize("name", ["stack.jsonl", "locks/stack.jsonl"])
def test_another_schema_is_refused_and_nothing_is_written(folder: Path, name: str) -> None:
    """To none of the files."""
    (folder / name).write_bytes((folder / name).read_bytes() + b'{"schema": 7, "colour": "blue"}\n')
    before = contents(folder)
    with pytest.raises(UserError, match="the history of stack: line 3: it has schema 7"):
        history.update(folder, make_lock(digest="3" * 64), [a_record(day=3, lock="3")], now=DAYS[3])
    assert before == contents(folder)


def test_the_lines_of_two_branches_are_read_in_the_order_of_publication(folder: Path) -> None:
    """A merge of branches may put older lines last."""
    path = folder / "stack.jsonl"
    path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))
    assert ["trains", "step:exception"] == [entry.outcome for entry in history.load(folder).entries]


@given(st.lists(st.tuples(OUTCOMES, st.sampled_from("12")), min_size=1, max_size=5))
def test_the_newest_entry_is_the_verdict_that_was_published_last(
    tmp_path_factory: pytest.TempPathFactory, days: list[tuple[str, str]]
) -> None:
    """Apart from failures of the machine. Publishing each day twice makes no difference."""
    folder = tmp_path_factory.mktemp("history")
    for day, (outcome, lock) in enumerate(days):
        record = a_record(outcome, day, lock)
        first, second = (history.update(folder, OLD, [record], now=DAYS[day]) for _ in range(2))
        assert (0, True) == (len(second.entries), len(first.entries) <= 1)
    of_the_stack = [outcome for outcome, _ in days if outcome != "install:network"]
    entries = history.load(folder).entries
    assert of_the_stack[-1:] == [entry.outcome for entry in entries[-1:]]
