"""Errors of a user or a machine are a message and exit code 2, never a traceback."""

from __future__ import annotations

import datetime as dt
import importlib.util
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.cli.commands import EXTRA
from gradmatrix.cli.main import main
from gradmatrix.core.model import Failure
from gradmatrix.publish import publication
from gradmatrix.run import bundle, project
from gradmatrix.run.project import Project
from gradmatrix.stacks.environment import InstallFailed
from tests.cli.test_claims_command import CLAIMS
from tests.cli.test_cli import MATRIX, OF_SCRIPTS, SUMS, outcomes, write_lock
from tests.factories import (
    make_cell,
    make_lock,
    make_observation,
    make_raised,
    make_record,
)
from tests.trace.test_check import publish

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
def test_all_cannot_be_combined_with_a_name(
    root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """`nox -s matrix -- --all` does this, so the error says what to write instead."""
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
def test_an_unknown_option_is_an_error_with_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str], words: list[str], meant: str
) -> None:
    """The error does not list all commands."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    err = capsys.readouterr().err
    assert (2, True, True) == (
        ended.value.code,
        err.startswith(f"usage: gradmatrix {words[0]} "),
        meant in err,
    )


def test_without_a_core_stack_a_stack_must_be_named(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The core stacks are the default, and there are none."""
    (root / "matrix.toml").write_text(MATRIX.replace("core = true\n", ""), encoding="utf-8")
    assert 2 == main(["run", "--root", str(root)])
    assert "No stack of matrix.toml is a core stack." in capsys.readouterr().err


def test_matrix_must_name_a_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder is an error."""
    assert 2 == main(["list", "--root", str(root), "--matrix", str(root / "scenarios")])
    assert "gradmatrix: scenarios cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), InstallFailed(BUILD)])
def test_a_machine_that_fails_exits_with_2(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    """The message says what happened, and that the same command continues later."""

    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(publication, "publish", broken)
    assert 2 == main(["table", "--root", str(root)])
    told = capsys.readouterr().err.splitlines()
    assert (f"gradmatrix: The command stopped: {error}.", "  next: Fix this") == (
        told[0],
        told[2].partition(" and")[0],
    )


def test_isolation_can_be_limited_to_a_device(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a run can be."""
    assert 2 == main(["isolation", "first", "--device", "cpus", "--root", str(root)])
    assert "perhaps you meant 'cpu'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"),
    [(["lock", "--all"], 3), (["lock", "first"], 2), (["run", "--all"], 3), (["run", "first"], 2)],
)
def test_a_release_that_does_not_exist_does_not_stop_the_other_stacks(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
) -> None:
    """The error is printed after the other stacks. If there are none, it is the only output."""

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


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("trac", "you meant 'trace'"), ("claim", "you meant 'claims'"), ("x", "known are: init, ")],
)
def test_a_mistyped_command_is_an_error_with_the_right_one(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    """Of a word that is like none, all are listed."""
    with pytest.raises(SystemExit) as exited:
        main([typed])
    said = capsys.readouterr().err.splitlines()[-1]
    assert (2, True) == (exited.value.code, said.startswith("gradmatrix: error: there is no"))
    assert meant in said


def test_without_a_command_it_says_where_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    """As --help does."""
    with pytest.raises(SystemExit) as exited:
        main([])
    assert 2 == exited.value.code
    assert "gradmatrix trace train.py          why does my script" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["check", "--scenario", "su"], "perhaps you meant 'sums'"),
        (["claims", "smus"], "perhaps you meant 'sums'"),
        (["run", "--cell", "sums/fro"], "perhaps you meant 'frozen'"),
        (["run", "st"], "perhaps you meant 'first'"),
        (["run", "zebra"], "known are: first, second"),
    ],
)
def test_a_mistyped_name_is_an_error_with_what_may_be_meant(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], meant: str
) -> None:
    """The nearest one, those that contain it, or all."""
    (root / "scenarios" / "claims.toml").write_text(CLAIMS, encoding="utf-8")
    assert 2 == main([*words, "--root", str(root)])
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize("words", [["table"], ["upgrade", "a", "--to", "b"], ["publish"]])
def test_a_command_without_its_packages_says_which_extra_to_install(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    """``pip install gradmatrix`` is light."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert 2 == main([*words, "--root", str(root)])
    told = capsys.readouterr().err
    assert f"This command needs {EXTRA[0]}" in told
    assert 'pip install "gradmatrix[matrix]' in told


def test_the_matrix_of_the_wheel_is_used_and_named(
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where no matrix.toml is; but nothing of it is published."""
    published = dt.datetime(2026, 11, 23, tzinfo=dt.UTC)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(project, "find_checkout", lambda _: None)
    monkeypatch.setattr(bundle, "carried", lambda: bundle.Bundle(root, published))
    assert 0 == main(["list"])
    out, err = capsys.readouterr()
    assert "sums" in out
    assert "this is the matrix published on 2026-11-23" in err
    assert 2 == main(["publish"])
    assert "This command needs a matrix.toml" in capsys.readouterr().err
    assert 2 == main(["run", "--cell", "sums/plain"])  # it would install gigabytes unasked
    told = capsys.readouterr().err
    assert "would be installed, each of up to 7 GiB: first" in told
    assert "gradmatrix init" in told
    assert 0 == main(["run", "first", "--no-table"])
    monkeypatch.setattr("gradmatrix.cli.main.is_missing", lambda _: True)
    assert 2 == main(["run"])  # nothing need be installed to hear this
    assert "There is no matrix.toml here, and no stack is named." in capsys.readouterr().err
    assert 2 == main(["run", "first"])
    assert "This command needs covertable, which is not installed." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["capsule", "first/sums/plain/cpu"], "# dependencies = ["),
        (["claims", "sums-train"], "sums-train: ✗ refuted"),
        (["why", "element 0 of tensors"], "1 cell of the matrix: 1 fail"),
        (["why", "first/sums/plain"], "first/sums/plain/cpu: step:no-grad-fn"),
        (["why", "sums/plain"], "first/sums/plain/cpu: step:no-grad-fn"),
    ],
)
def test_a_project_of_scripts_asks_what_the_wheel_carries(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    answer: str,
) -> None:
    """After ``init``, and a note says so. What ran here is still found here."""
    message = "element 0 of tensors does not require grad"
    failed = make_record("step:no-grad-fn", make_cell("first", "sums", "plain"), message=message)
    publish(root, replace(failed, observation=make_observation(raised=make_raised(message))))
    (root / "scenarios" / "claims.toml").write_text(CLAIMS, encoding="utf-8")
    with (root / "scenarios" / "sums.py").open("a", encoding="utf-8") as scenario:
        scenario.write("def train(variant, device, steps):\n    import torch\n")
    carried = bundle.Bundle(root, dt.datetime(2026, 11, 23, tzinfo=dt.UTC))
    monkeypatch.setattr(bundle, "carried", lambda: carried)
    own = root / "own"
    own.mkdir()
    (own / "train.py").write_text("import torch\n", encoding="utf-8")
    # its first stack has the name of a published one
    (own / "matrix.toml").write_text(OF_SCRIPTS, encoding="utf-8")
    write_lock(own, make_lock("first"))
    Project.at(own).store.append(make_record("trains", make_cell("first", "train", "script")))
    monkeypatch.chdir(own)
    assert 0 == main(words)
    told = capsys.readouterr()
    assert answer in told.out
    assert "this is the matrix published on 2026-11-23" in told.err
    for cell in ("first/train/script", "train/script"):
        assert 0 == main(["why", cell])
        told = capsys.readouterr()
        assert ("first/train/script/cpu: trains", "") == (told.out.partition(",")[0], told.err)
    assert 2 == main(["capsule", "first/train/script"])  # it is not published
    assert "note:" not in capsys.readouterr().err
