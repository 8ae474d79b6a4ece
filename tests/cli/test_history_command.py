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


@pytest.fixture(autouse=True)
def _wide_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed goes to a file, whatever the machine's settings."""
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project in which nothing was published."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    return tmp_path


def publish(root: Path, outcome: str, day: int, lock: str) -> None:
    """Publish one cell with what became of it under a lock."""
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
    """The exit code of a command."""
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


def test_an_unknown_cell_is_refused_with_a_suggestion(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As everywhere."""
    publish(root, "trains", 0, "1")
    assert 2 == run(root, "history", "first/sums/plane")
    assert "perhaps you meant 'plain'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("history", "first/sums/plain"), ("regressions",)], ids=lambda words: words[0]
)
def test_without_a_history_the_next_step_is_told(
    root: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Silence would read as "nothing is regressed"."""
    assert 2 == run(root, *words)
    assert "There is no history in" in capsys.readouterr().err


def test_a_regression_is_printed_and_makes_the_exit_code_1(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the message of the record."""
    publish(root, "trains", 0, "1")
    publish(root, "step:exception", 1, "2")
    assert 1 == run(root, "regressions")
    printed = capsys.readouterr().out
    assert "- **first/sums/plain on cpu**: trains → step:exception" in printed
    assert "  - `it broke`" in printed


def test_nothing_regressed_is_0_and_says_so(root: Path, tmp_path: Path) -> None:
    """In the file, for whoever closes the issue."""
    publish(root, "trains", 0, "1")
    assert 0 == run(root, "regressions", "--output", str(tmp_path / "issue.md"))
    assert "No cell of the published matrix has regressed.\n" == (tmp_path / "issue.md").read_text(
        "utf-8"
    )


def test_regressions_are_had_as_data(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list, with whole links where an address is given."""
    publish(root, "trains", 0, "1")
    publish(root, "step:exception", 1, "2")
    assert 1 == run(root, "regressions", "--json", "--base-url", "https://example.org/m")
    [found] = json.loads(capsys.readouterr().out)
    assert ("https://example.org/m/cells/first.html#sums-plain-cpu", {"torch": ["2.1", "2.2"]}) == (
        found["evidence"],
        found["moved"],
    )


def test_what_left_the_matrix_is_not_regressed(root: Path) -> None:
    """A stack that matrix.toml has no more."""
    publish(root, "trains", 0, "1")
    publish(root, "step:exception", 1, "2")
    assert 1 == run(root, "regressions")
    (root / "matrix.toml").write_text(MATRIX.replace('"first"', '"another"'), encoding="utf-8")
    assert 0 == run(root, "regressions")


def test_the_history_of_what_was_not_judged_is_printed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a device the first one is meant on which it was judged: none was."""
    publish(root, "setup:unsupported", 0, "1")
    assert 0 == run(root, "history", "first/sums/plain")
    assert "setup:unsupported" in capsys.readouterr().out


def test_what_cannot_be_read_is_told_beside_the_result(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data stay data."""
    publish(root, "trains", 0, "1")
    path = root / "results" / "history" / "first.jsonl"
    path.write_bytes(path.read_bytes() + b'{"schema":1,"half')
    assert 0 == run(root, "regressions", "--json")
    out, err = capsys.readouterr()
    assert ("[]\n", True) == (out, err.startswith("warning: history of first, line 2 was skipped"))


def test_another_schema_is_an_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, with what to do."""
    publish(root, "trains", 0, "1")
    (root / "results" / "history" / "first.jsonl").write_bytes(b'{"schema":9}\n')
    assert 2 == run(root, "regressions")
    assert "line 1: it has schema 9" in capsys.readouterr().err
