"""Runs that exist: how each kind is read, and the errors for what is not a run."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace

from gradmatrix.compare.recorded import paired, read
from gradmatrix.core.errors import UserError
from gradmatrix.run.plan import lock_input
from gradmatrix.run.project import Project
from gradmatrix.run.store import encode
from tests.cli.test_cli import MATRIX, SUMS
from tests.factories import make_cell, make_lock, make_record

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Lock, Record

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project of two stacks without a record."""
    root = tmp_path / "checkout"
    (root / "scenarios").mkdir(parents=True)
    (root / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (root / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    return Project.at(root)


def locked(stack: str, torch: str = "2.6.0") -> Lock:
    """A lock whose text is empty."""
    return make_lock(stack, versions={"torch": torch}, digest=EMPTY)


def ran(stack: str, outcome: str = "trains", lock: Lock | None = None, **facts: object) -> Record:
    """The record of the only cell of a stack."""
    inputs = {"lock": lock_input(lock or locked(stack))}
    return make_record(outcome, make_cell(stack, "sums"), **{"inputs": inputs, **facts})


def write(folder: Path, *records: Record, locks: bool = True) -> Path:
    """A results folder with these records, and the locks of their stacks."""
    for each in records:
        path = folder / "records" / f"{each.cell.stack}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(encode(each))
        if locks:
            (folder / "locks").mkdir(exist_ok=True)
            (folder / "locks" / f"{each.cell.stack}.json").write_bytes(
                msgspec.json.encode(locked(each.cell.stack))
            )
            (folder / "locks" / f"{each.cell.stack}.txt").write_text("", encoding="utf-8")
    return folder


def outcomes(text: str, project: Project) -> dict[str, list[str]]:
    """The outcomes of a run by stack."""
    return {
        name: [r.outcome for r in side.records.values()]
        for name, side in read(text, project).sides.items()
    }


def test_a_results_folder_has_all_its_stacks(project: Project, tmp_path: Path) -> None:
    """Each with the lock beside its records."""
    folder = write(tmp_path / "theirs", ran("first"), ran("second", "gradient:none"))
    assert {"first": ["trains"], "second": ["gradient:none"]} == outcomes(str(folder), project)
    lock = read(str(folder), project).sides["first"].lock
    assert lock is not None
    assert "2.6.0" == lock.version("torch")


def test_a_folder_of_records_is_a_run(project: Project, tmp_path: Path) -> None:
    """The locks are in the folder beside it."""
    folder = write(tmp_path / "theirs", ran("first"))
    side = read(str(folder / "records"), project).sides["first"]
    assert (1, True) == (len(side.records), side.lock is not None)


def test_a_file_of_records_is_a_run(project: Project, tmp_path: Path) -> None:
    """With any name. Without locks beside it, the lock is not known."""
    path = tmp_path / "some.jsonl"
    path.write_bytes(encode(ran("theirs")) + encode(ran("others", "gradient:none")))
    assert {"others": ["gradient:none"], "theirs": ["trains"]} == outcomes(str(path), project)
    assert None is read(str(path), project).sides["theirs"].lock


def test_the_newest_record_of_a_cell_counts(project: Project, tmp_path: Path) -> None:
    """A journal has all records."""
    old = ran("first", "gradient:none")
    path = tmp_path / "some.jsonl"
    path.write_bytes(encode(replace(old, outcome="trains", passed=True)) + encode(old))
    assert {"first": ["gradient:none"]} == outcomes(str(path), project)


def test_records_of_an_earlier_lock_are_left_out(project: Project, tmp_path: Path) -> None:
    """They say nothing about the newest versions."""
    other = replace(locked("first"), digest="9" * 64)
    early = ran("first", lock=other, recorded_at=ran("first").recorded_at.replace(year=2020))
    early = replace(early, cell=make_cell("first", "sums", "reported"))
    folder = write(tmp_path / "theirs", early, ran("first"))
    assert ["plain"] == [key.variant for key in read(str(folder), project).sides["first"].records]


def test_a_lock_that_the_records_were_not_made_with_is_not_used(
    project: Project, tmp_path: Path
) -> None:
    """The changed packages are then unknown, which is better than wrong."""
    other = replace(locked("first"), digest="9" * 64)
    folder = write(tmp_path / "theirs", ran("first", lock=other))
    assert None is read(str(folder), project).sides["first"].lock


def test_a_stack_of_this_checkout_is_a_run(project: Project) -> None:
    """It has priority over a folder of the same name."""
    write(project.results, ran("first"))
    assert {"first": ["trains"]} == outcomes("first", project)


def test_a_folder_of_a_commit_is_a_run(project: Project) -> None:
    """As it was in that commit."""
    write(project.results, ran("first"))
    git = ["git", "-C", str(project.root), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    shutil.rmtree(project.results)
    assert {"first": ["trains"]} == outcomes("HEAD:results", project)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("frist", "perhaps you meant 'first'"),
        ("HEAD:nothing", "not a git repository"),
        ("--output=x:results", "known are: first, second"),
        ("HEAD:--output=x", "known are: first, second"),
        ("first", "it was never run"),
    ],
)
def test_a_text_that_names_no_run_is_an_error(project: Project, text: str, expected: str) -> None:
    """With the cause, and what a run is."""
    with pytest.raises(UserError) as refused:
        read(text, project)
    assert expected in str(refused.value)


def test_a_folder_without_records_is_an_error(project: Project, tmp_path: Path) -> None:
    """The error names the folder."""
    with pytest.raises(UserError, match="There are no records in"):
        read(str(tmp_path), project)


def test_another_file_is_an_error_with_its_line(project: Project, tmp_path: Path) -> None:
    """Such as a matrix.json, a table, or half a download."""
    path = tmp_path / "matrix.json"
    path.write_text('{"schema":1,', encoding="utf-8")
    with pytest.raises(UserError, match="json, line 1 was skipped"):
        read(str(path), project)


def test_a_damaged_line_is_reported_and_the_others_are_read(
    project: Project, tmp_path: Path
) -> None:
    """Nothing is lost, because nothing is written."""
    path = tmp_path / "some.jsonl"
    path.write_bytes(b"{half\n" + encode(ran("first")))
    found = read(str(path), project)
    assert (["first"], 1) == (list(found.sides), len(found.problems))


def test_two_runs_of_one_stack_are_compared_whatever_their_names(
    project: Project, tmp_path: Path
) -> None:
    """Two stacks of a checkout, or two files."""
    one, other = (read(str(write(tmp_path / name, ran(name))), project) for name in ("a", "b"))
    pairs, notes = paired(one, other, None)
    assert ([("a", "b")], ()) == ([(x.name, y.name) for x, y in pairs], notes)


def test_stacks_that_both_runs_have_are_compared(project: Project, tmp_path: Path) -> None:
    """A note names the others."""
    one = read(str(write(tmp_path / "one", ran("a"), ran("b"), ran("c"))), project)
    other = read(str(write(tmp_path / "other", ran("b"), ran("c"), ran("d"))), project)
    pairs, notes = paired(one, other, None)
    assert [("b", "b"), ("c", "c")] == [(x.name, y.name) for x, y in pairs]
    assert (": a.", ": d.") == tuple(each[-4:] for each in notes)


def test_two_stacks_can_be_named(project: Project, tmp_path: Path) -> None:
    """One of each run. An unknown name is an error with a suggestion."""
    run = read(str(write(tmp_path / "one", ran("alpha"), ran("beta"))), project)
    pairs, _ = paired(run, run, ("alpha", "beta"))
    assert [("alpha", "beta")] == [(x.name, y.name) for x, y in pairs]
    with pytest.raises(UserError, match="perhaps you meant 'beta'"):
        paired(run, run, ("alpha", "betta"))


def test_runs_without_a_common_stack_are_an_error(project: Project, tmp_path: Path) -> None:
    """The error says how to name two stacks."""
    one = read(str(write(tmp_path / "one", ran("a"), ran("b"))), project)
    other = read(str(write(tmp_path / "other", ran("c"), ran("d"))), project)
    with pytest.raises(UserError, match="--stacks A B"):
        paired(one, other, None)
