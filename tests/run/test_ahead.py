"""The next stack is installed while the cells of this one run."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from gradmatrix.cli import matrix
from gradmatrix.cli.main import main
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Build, Failure, Record, Stack
from gradmatrix.run import ahead, pool
from gradmatrix.run.ahead import Ahead, next_install
from gradmatrix.run.project import Project
from gradmatrix.run.stack import here
from gradmatrix.stacks import environment
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.environment import BuildChoice, InstallFailed
from gradmatrix.stacks.index import Index
from tests.conftest import FAKES, ends, waits_until
from tests.fakes.package_index import PackageIndex
from tests.pretended import EVERYTHING, PretendedServer, Watcher, World, make_run, pretend
from tests.upgrading import make_checkout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradmatrix.run.server import Answer, Request
    from gradmatrix.run.stack import StackRun

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
RUN_THAT_WAITS = """
import sys, time
from gradmatrix.run.ahead import Ahead
ahead = Ahead(lambda _: sys.argv[2:])
ahead.begin("first")
if sys.argv[1] == "running":
    ahead._send("SIGCONT")
else:
    with ahead.running():
        import pathlib
        while not (pathlib.Path(sys.argv[-1]) / "processes.txt").exists():
            time.sleep(0.01)
time.sleep(10**6)
"""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Every stack is installed and every cell trains."""
    return pretend(monkeypatch)


def installing(folder: Path) -> list[str]:
    """The command of an install that goes on until it is told to end."""
    return [sys.executable, str(FAKES / "installing.py"), str(folder)]


def processes(folder: Path) -> list[int]:
    """The ids of the install and of its child, once it has begun."""
    assert waits_until((folder / "processes.txt").exists)
    return [int(each) for each in (folder / "processes.txt").read_text(encoding="ascii").split()]


def state(pid: int) -> str:
    """A letter: T if the process is stopped."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def are_stopped(folder: Path) -> bool:
    """Whether the install and its child are stopped within PATIENCE_S."""
    return waits_until(lambda: {"T"} == set(map(state, processes(folder))))


def ticks(folder: Path) -> int:
    """How far the install has come."""
    return (folder / "ticks.txt").stat().st_size


def with_ahead(run: StackRun, going: Ahead) -> StackRun:
    """A run that installs ahead."""
    return replace(run, place=partial(here, ahead=going))


def fail() -> list[str]:
    """The command of an install that fails."""
    return [sys.executable, "-c", "raise SystemExit(1)"]


def test_it_is_stopped_while_cells_run(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on while a server imports, and neither it nor its child runs beside a cell."""
    events: list[str | tuple[bool, int]] = []

    class Looking(PretendedServer):
        """Looks at the install when it imports and when a cell runs."""

        def __enter__(self) -> Self:
            assert processes(tmp_path)
            begun = ticks(tmp_path)
            assert waits_until(lambda: ticks(tmp_path) > begun)
            events.append("goes on")
            return super().__enter__()

        def run(self, request: Request) -> Answer:
            stopped = are_stopped(tmp_path)
            before = ticks(tmp_path)
            answer = super().run(request)
            events.append((stopped, ticks(tmp_path) - before))
            return answer

    def server(_python: Path, scripts: Sequence[Path], *_: object, **__: object) -> object:
        return Looking(world, scripts, (), fork=True)

    monkeypatch.setattr(pool, "Server", server)
    with Ahead(lambda _: installing(tmp_path)) as going:
        with_ahead(make_run(tmp_path), going).execute(EVERYTHING)
    assert ["goes on", *[(True, 0)] * 3] == events


def test_it_begins_after_the_install_of_its_own_stack(tmp_path: Path, world: World) -> None:
    """At the turn of a stack its install is waited for, then the next one begins."""
    watcher = Watcher()

    def following(stack: str) -> None:
        watcher.stages.append(f"what follows {stack}?")

    with Ahead(lambda _: installing(tmp_path)) as going:
        going.begin("before")
        going.next_install = following
        (tmp_path / "end").touch()
        summary = with_ahead(make_run(tmp_path, watcher=watcher), going).execute(EVERYTHING)
    assert [
        "stack: installing a lock of 1 package",
        "stack: installing: Installed 1 package",
        "what follows stack?",
        "stack: 1 of 3: one a",
    ] == watcher.stages[:4]
    assert "a larger build" == summary.notice


def test_an_install_that_fails_ahead_is_tried_again(tmp_path: Path, world: World) -> None:
    """It failed beside other work, which says nothing about the stack."""
    going = Ahead(lambda _: fail())
    going.begin("before")
    going.next_install = lambda _: None
    assert 3 == with_ahead(make_run(tmp_path), going).execute(EVERYTHING).executed


def test_a_failure_is_reported_at_the_turn_of_its_stack(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stack before has all of its records then."""

    def ensure(*_: object, **__: object) -> None:
        raise InstallFailed(Failure(outcome="install:network", message="no answer"))

    with Ahead(lambda _: fail()) as going:
        assert 3 == with_ahead(make_run(tmp_path), going).execute(EVERYTHING).executed
        monkeypatch.setattr(environment, "ensure", ensure)
        with pytest.raises(UserError, match=r"Stack stack was not judged: install:network\."):
            with_ahead(make_run(tmp_path / "next"), going).execute(EVERYTHING)


def test_what_cannot_be_found_out_is_no_error_yet(tmp_path: Path, world: World) -> None:
    """The turn of the next stack meets it again."""

    def following(_stack: str) -> None:
        raise UserError("The lock was edited.", cause="by hand", next_step="lock again")

    with Ahead(following) as going:
        assert 3 == with_ahead(make_run(tmp_path), going).execute(EVERYTHING).executed


def test_an_interrupted_run_leaves_no_process(tmp_path: Path, world: World) -> None:
    """The install ends with its child."""

    class Impatient(Watcher):
        """Interrupts after the first cell, when the install has begun."""

        def ended(self, record: Record, output: str) -> None:
            with going.running():
                processes(tmp_path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Ahead(lambda _: installing(tmp_path)) as going:
        with_ahead(make_run(tmp_path, watcher=Impatient()), going).execute(EVERYTHING)
    assert [True, True] == [ends(pid) for pid in processes(tmp_path)]


@pytest.mark.parametrize("install", ["running", "stopped"])
def test_a_killed_run_leaves_no_process(tmp_path: Path, install: str) -> None:
    """Nobody can tell the install to end, so it sees that by itself."""
    command = [sys.executable, "-c", RUN_THAT_WAITS, install, *installing(tmp_path)]
    with subprocess.Popen(command) as run:
        found = processes(tmp_path)
        if install == "stopped":
            assert are_stopped(tmp_path)
        run.send_signal(signal.SIGKILL)
    assert [True, True] == [ends(pid) for pid in found]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StackRun]:
    """The run of a stack with one tiny package, which uv gets from an index on loopback."""
    with PackageIndex() as index:
        index.add("alpha", "1.0", "2024-01-01")
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        stack = Stack(
            name="demo", python=PYTHON, requirements=("alpha",), as_of=dt.date(2025, 3, 31)
        )
        lock = locks.resolve(stack, Index(index.url), tmp_path / "locks")
        yield replace(make_run(tmp_path, lock=lock), stack=stack)


def installed_ahead(run: StackRun, stages: list[str]) -> bool:
    """Whether the stack of ``run`` is installed by the command for it."""
    going = Ahead(lambda _: ahead.command(run))
    going.begin("before")
    return going.finish(stages.append)


def test_the_environment_is_the_one_that_the_turn_finds(run: StackRun) -> None:
    """It has the lock, and the build that was chosen; it is installed once."""
    stages: list[str] = []
    assert installed_ahead(run, stages)
    assert "installing: Installed 1 package" in stages[-1]
    assert environment.due(run.lock, run.locks, run.environments) is None
    assert ahead.command(run) is None
    found = environment.ensure(run.lock, run.locks, run.environments)
    assert (Build.CPU, False) == (found.build, found.installed)


def test_an_environment_in_use_is_left_alone(run: StackRun) -> None:
    """Another run installs and uses it."""
    with environment.in_use(run.environments, run.lock.stack):
        assert not installed_ahead(run, [])
    assert not (run.environments / run.lock.stack).exists()


@pytest.fixture
def project(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two stacks with locks, and no environment."""
    monkeypatch.setattr(environment, "due", lambda *_: BuildChoice(Build.CPU))
    return Project.at(make_checkout(tmp_path))


def asked_for(project: Project, after: str) -> str | None:
    """The stack that is installed while the cells of another one run."""
    found = next_install(project, project.matrix.stacks, EVERYTHING, Watcher(), after)
    return None if found is None else found[found.index("-c") + 2]


def test_the_next_stack_is_the_one_that_follows(project: Project) -> None:
    """Nothing follows the last one."""
    assert ("second", None) == (asked_for(project, "first"), asked_for(project, "second"))


def test_a_stack_without_a_lock_has_its_turn_first(project: Project) -> None:
    """It is resolved then, and may fail."""
    (project.locks_folder / "second.json").unlink()
    assert asked_for(project, "first") is None


def test_a_stack_without_cells_to_run_is_not_installed(project: Project) -> None:
    """All of its cells are recorded."""
    project.stack_run(project.matrix.stack("second"), Watcher()).execute(EVERYTHING)
    assert asked_for(project, "first") is None


@pytest.mark.parametrize(
    ("options", "expected"), [((), ["first", "second"]), (("--budget", "9cells"), [])]
)
def test_a_run_over_stacks_installs_ahead(
    project: Project, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], expected: list[str]
) -> None:
    """With a budget it does not: the next stack may be one too many."""
    asked: list[str] = []
    monkeypatch.setattr(matrix, "next_install", lambda *arguments: asked.append(arguments[-1]))
    assert 0 == main(["run", "--all", "--root", str(project.root), "--no-table", *options])
    assert expected == asked
