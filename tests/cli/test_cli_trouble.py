"""What a user does wrong, or a machine: a message and exit code 2, never a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.model import Failure
from gradmatrix.publish import publication
from gradmatrix.stacks.environment import InstallFailed
from tests.cli.test_cli import MATRIX, SUMS, outcomes, write_lock
from tests.factories import make_lock

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Lock, Stack

NO_RELEASE = Failure(outcome="resolve:no-release", message="torch==99 is not there")
BUILD = Failure(outcome="install:build", message="no compiler")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project of two locked stacks, one of them core."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    for stack in ("first", "second"):
        write_lock(tmp_path, make_lock(stack))
    return tmp_path


@pytest.mark.parametrize("arguments", [["run", "first", "--all"], ["lock", "first", "--all"]])
def test_a_name_and_all_exclude_each_other(
    root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """`nox -s matrix -- --all` comes out as that: what to write instead is told."""
    assert 2 == main([*arguments, "--root", str(root)])
    assert "nox -t all" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["isolation", "first", "--devise", "cpu"], "--devise (perhaps you meant '--device')"),
        (["isolation", "first", "--devise=cpu"], "perhaps you meant '--device'"),
        (["isolation", "first", "--quick"], "known are: --root, --matrix"),
        (["list", "first"], "first (it takes no more words)"),
    ],
)
def test_what_a_command_does_not_know_is_told_with_its_own_usage(
    capsys: pytest.CaptureFixture[str], words: list[str], meant: str
) -> None:
    """A slip of the keys in the twentieth option of a command is not answered with the list of all commands."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    err = capsys.readouterr().err
    assert (2, True, True) == (
        ended.value.code,
        err.startswith(f"usage: gradmatrix {words[0]} "),
        meant in err,
    )


def test_without_a_core_stack_one_must_be_named(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default is what it is about."""
    (root / "matrix.toml").write_text(MATRIX.replace("core = true\n", ""), encoding="utf-8")
    assert 2 == main(["run", "--root", str(root)])
    assert "No stack of matrix.toml is a core stack." in capsys.readouterr().err


def test_a_folder_is_no_matrix(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--matrix names a file."""
    assert 2 == main(["list", "--root", str(root), "--matrix", str(root / "scenarios")])
    assert "gradmatrix: scenarios cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), InstallFailed(BUILD)])
def test_a_machine_that_cannot_go_on_ends_with_2(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    """What happened, and that the same command goes on later."""

    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(publication, "publish", broken)
    assert 2 == main(["table", "--root", str(root)])
    told = capsys.readouterr().err.splitlines()
    assert (f"gradmatrix: The command stopped: {error}.", "  next: Fix this") == (
        told[0],
        told[2].partition(" and")[0],
    )


def test_isolation_can_be_narrowed_by_device(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a run can."""
    assert 2 == main(["isolation", "first", "--device", "cpus", "--root", str(root)])
    assert "perhaps you meant 'cpu'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"),
    [(["lock", "--all"], 3), (["lock", "first"], 2), (["run", "--all"], 3), (["run", "first"], 2)],
)
def test_a_release_that_there_is_not_does_not_keep_the_other_stacks(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
) -> None:
    """It is told when they are done; where there are none, it is bad input like another."""

    def resolved(stack: Stack, *_: object) -> Lock:
        return make_lock(stack.name, failure=NO_RELEASE if stack.name == "first" else None)

    monkeypatch.setattr("gradmatrix.stacks.lock.resolve", resolved)
    (root / "results" / "locks" / "first.json").unlink()
    assert code == main([*words, "--root", str(root)])
    out, err = capsys.readouterr()
    assert [
        "gradmatrix: Stack first asks for a release that does not exist.",
        "  why:  torch==99 is not there",
    ] == [line for line in err.splitlines() if "locking" not in line][:2]
    assert (code == 3) == ("\nsecond: " in f"\n{out}")
    if words[0] == "run":
        assert ({"second"} if code == 3 else set()) == {
            cell.partition("/")[0] for cell in outcomes(root)
        }
