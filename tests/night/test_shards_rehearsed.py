"""The rehearsal of a night, and the exit codes by which the night sees what went wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.model import Failure
from gradmatrix.run.project import Project
from tests.cli.test_cli import CONFLICT
from tests.factories import make_lock
from tests.night.test_shards_night import make_root, make_world, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pretended import World


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project."""
    return make_root(tmp_path)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Pretended servers."""
    return make_world(monkeypatch)


def test_a_night_can_be_rehearsed(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """It runs on one machine in separate folders. The exit code is 0 if both ways agree."""
    before = {path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"}
    sessions = str(root / "sessions.json")
    assert 0 == run(root, "dry-run", sessions, "first", "broken")
    assert (
        "20 cells were published twice. 4 of them ran directly and again in 1 job; 0 differ."
        in capsys.readouterr().out
    )
    assert before == {path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"}


def test_a_rehearsal_tells_what_differs(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, and each differing cell is named."""
    world.answers["one"] = world.answers["one"][:1]
    assert 1 == run(root, "dry-run", str(root / "sessions.json"), "first")
    printed = capsys.readouterr().out
    assert (
        "first/products/one/cpu: outcome: plain process:exit-1, merged trains; passed: plain False"
        in printed
    )


def test_a_rehearsal_of_nothing_is_bad_input(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two matrices without a cell that ran would always be equal."""
    assert 2 == run(root, "dry-run", str(root / "sessions.json"), "broken")
    assert "no cell of these stacks ran in a shard" in capsys.readouterr().err


def test_a_rehearsal_knows_its_stacks(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown stack is an error before anything runs."""
    assert 2 == run(root, "dry-run", str(root / "sessions.json"), "frist")
    assert "perhaps you meant 'first'" in capsys.readouterr().err


def test_a_stack_that_does_not_resolve_has_its_own_exit_code(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of this program ends with 1, also in nox. The night must not confuse the two."""
    monkeypatch.setattr(Project, "relock", lambda _, stack: make_lock(stack.name))
    assert 0 == run(root, "lock", "--all")
    monkeypatch.setattr(
        Project, "relock", lambda _, stack: make_lock(stack.name, versions={}, failure=CONFLICT)
    )
    assert 3 == run(root, "lock", "--all")


def test_a_stack_without_such_a_release_is_left_out_and_reported(
    root: Path, world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other stacks go on. If no stack is left, it is bad input."""
    lost = Failure(outcome="resolve:no-release", message="torch==99 is not there")
    monkeypatch.setattr(
        "gradmatrix.stacks.lock.resolve",
        lambda stack, *_: make_lock(stack.name, versions={}, failure=lost),
    )
    (root / "results" / "locks" / "second.json").unlink()
    assert 0 == run(root, "shards", str(root / "sessions.json"))
    out, err = capsys.readouterr()
    assert {"first"} == {job["stack"] for job in json.loads(out)["include"]}
    assert (
        "left out: Stack second asks for a release that does not exist. torch==99 is not there"
        in err
    )
    (root / "sessions.json").write_text('[{"session": "matrix(second)"}]', encoding="utf-8")
    assert 2 == run(root, "shards", str(root / "sessions.json"))
    assert "Stack second asks for a release that does not exist." in capsys.readouterr().err
