"""``history`` and ``regressions``: what they print, write and return."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from gradmatrix.compare import history
from gradmatrix.run.store import Store
from tests.cli.test_cli import MATRIX, SUMS, write_lock
from tests.factories import NOON, make_cell, make_lock, make_record

if TYPE_CHECKING:
    from pathlib import Path

CELL = make_cell("first", "sums")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project in which nothing was published."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    return tmp_path


def publish(root: Path, outcome: str, day: int, lock: str) -> None:
    """Publish one cell with this outcome under a lock."""
    at = NOON + dt.timedelta(days=day)
    record = make_record(
        outcome, CELL, message="it broke", recorded_at=at, inputs={"lock": lock * 16}, key=lock
    )
    known = make_lock("first", digest=lock * 64, versions={"torch": f"2.{lock}"})
    write_lock(root, known)
    history.update(root / "results" / "history", known, [record], now=at)
    folder = root / "results" / "records"
    Store(folder, folder).publish("first", [record])


def run(root: Path, *words: str) -> int:
    """Run a command and return its exit code."""
    return main([words[0], "--root", str(root), *words[1:]])


def test_the_history_of_a_cell_is_printed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each entry with its lock, and what may have changed the verdict."""
    publish(root, "trains", 0, "1")
    publish(root, "step:exception", 1, "2")
    assert 0 == run(root, "history", "first/sums/plain")
    expected = """\
first/sums/plain/cpu
  2026-01-15 12:00 ✓ trains (new), 4 steps/s, lock 1111111111111111
  2026-01-16 12:00 ✗ step:exception (regressed), lock 2222222222222222
    The stack's lock moved: torch 2.1 → 2.2.
"""
    assert expected == capsys.readouterr().out


def test_an_unknown_cell_is_an_error_with_a_suggestion(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in every command."""
    publish(root, "trains", 0, "1")
    assert 2 == run(root, "history", "first/sums/plane")
    assert "perhaps you meant 'plain'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("history", "first/sums/plain"), ("regressions",)], ids=lambda words: words[0]
)
def test_without_a_history_the_error_says_what_to_do(
    root: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """No output would look like "nothing has regressed"."""
    assert 2 == run(root, *words)
    assert "There is no history in" in capsys.readouterr().err


def test_a_regression_is_printed_and_exits_with_1(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the message of the record."""
    publish(root, "trains", 0, "1")
    publish(root, "step:exception", 1, "2")
    assert 1 == run(root, "regressions")
    printed = capsys.readouterr().out
    assert "- **first/sums/plain on cpu**: trains → step:exception" in printed
    assert "  - `it broke`" in printed


def test_without_a_regression_the_file_says_so_and_the_exit_code_is_0(
    root: Path, tmp_path: Path
) -> None:
    """The nightly job closes the issue then."""
    publish(root, "trains", 0, "1")
    assert 0 == run(root, "regressions", "--output", str(tmp_path / "issue.md"))
    assert "No cell of the published matrix has regressed.\n" == (tmp_path / "issue.md").read_text(
        "utf-8"
    )


def test_json_prints_the_regressions_as_data(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list. With --base-url its links are complete."""
    publish(root, "trains", 0, "1")
    publish(root, "step:exception", 1, "2")
    assert 1 == run(root, "regressions", "--json", "--base-url", "https://example.org/m")
    [found] = json.loads(capsys.readouterr().out)
    assert ("https://example.org/m/cells/first.html#sums-plain-cpu", {"torch": ["2.1", "2.2"]}) == (
        found["evidence"],
        found["moved"],
    )


def test_a_stack_that_left_the_matrix_is_not_a_regression(root: Path) -> None:
    """matrix.toml does not have the stack any more."""
    publish(root, "trains", 0, "1")
    publish(root, "step:exception", 1, "2")
    assert 1 == run(root, "regressions")
    (root / "matrix.toml").write_text(MATRIX.replace('"first"', '"another"'), encoding="utf-8")
    assert 0 == run(root, "regressions")


def test_the_history_of_a_cell_that_was_never_judged_is_printed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a device, a cell that was judged is preferred; here there is none."""
    publish(root, "setup:unsupported", 0, "1")
    assert 0 == run(root, "history", "first/sums/plain")
    assert "setup:unsupported" in capsys.readouterr().out


def test_a_line_that_cannot_be_read_is_a_warning_on_the_error_stream(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data on the standard output stay valid."""
    publish(root, "trains", 0, "1")
    path = root / "results" / "history" / "first.jsonl"
    path.write_bytes(path.read_bytes() + b'{"schema":1,"half')
    assert 0 == run(root, "regressions", "--json")
    out, err = capsys.readouterr()
    assert ("[]\n", True) == (out, err.startswith("warning: history of first, line 2 was skipped"))


def test_another_schema_is_an_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, and the error says what to do."""
    publish(root, "trains", 0, "1")
    (root / "results" / "history" / "first.jsonl").write_bytes(b'{"schema":9}\n')
    assert 2 == run(root, "regressions")
    assert "line 1: it has schema 9" in capsys.readouterr().err
