"""The run of one stack, from its plan to its records, with a pretended server."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.core import files
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Failure, Record, Role
from gradmatrix.judge.verdict import Ended
from gradmatrix.run import store
from gradmatrix.run.plan import Selection
from gradmatrix.run.pool import new_run_id, workplace
from gradmatrix.run.server import Answer
from gradmatrix.run.stack import failed
from gradmatrix.stacks import environment
from gradmatrix.stacks.environment import Environment, InstallFailed
from tests.factories import make_cell, make_lock, make_observation, make_raised, make_record
from tests.pretended import EVERYTHING, TRAINED, Watcher, World, make_run, outcomes, pretend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CONFLICT = Failure(outcome="resolve:conflict", message="a needs b<1, c needs b>2")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Every stack is installed and every cell trains, unless a test says otherwise."""
    return pretend(monkeypatch)


@pytest.fixture
def uninstallable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that must not ask for an environment."""

    def ensure(*_: object, **__: object) -> Environment:
        pytest.fail("nothing need be installed")

    monkeypatch.setattr(environment, "ensure", ensure)


def test_every_cell_is_run_and_recorded(tmp_path: Path, world: World) -> None:
    """One server runs them in the order of the plan. An unsupported cell is settled without it."""
    run = make_run(tmp_path)
    summary = run.execute(EVERYTHING)
    assert (3, 0, 1) == (summary.executed, summary.kept, summary.settled)
    assert ([["one", "two"]], ["one/a", "one/b", "two/c"]) == (world.started, world.asked)
    assert {
        "a": "trains",
        "b": "trains",
        "c": "trains",
        "unsupported": "setup:unsupported",
    } == outcomes(run)


def test_a_summary_has_the_seconds_of_imports_and_cells(tmp_path: Path, world: World) -> None:
    """Import times of the server and of cells are separate from the cells' own time.

    The build's notice is there too.
    """
    summary = make_run(tmp_path).execute(EVERYTHING)
    assert (8.0 + 3 * 0.25, 3 * 0.5, "a larger build") == (
        summary.import_s,
        summary.cells_s,
        summary.notice,
    )


def test_a_record_holds_what_was_seen_and_how_it_was_run(tmp_path: Path, world: World) -> None:
    """It has the observation, the build, the isolation and the run."""
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    record = run.store.recorded_here("stack")[make_cell(scenario="one", variant="b")]
    assert ("fork", "cpu", "run", Role.REPORTED, True) == (
        record.isolation,
        record.build,
        record.run,
        record.role,
        record.passed,
    )
    assert TRAINED.observation == record.observation


def test_a_run_reports_its_progress(tmp_path: Path, world: World) -> None:
    """Progress gets the plan, each stage, and each cell with its output."""
    watcher = Watcher()
    make_run(tmp_path, watcher=watcher).execute(EVERYTHING)
    assert [4] == watcher.plans
    assert [
        "stack: installing a lock of 1 package",
        "stack: 1 of 3: one a",
        "stack: importing",
        "stack: 2 of 3: one b",
        "stack: 3 of 3: two c",
    ] == watcher.stages
    assert [("a", "bye"), ("b", "bye"), ("c", "bye")] == watcher.outputs


def test_a_second_run_asks_for_nothing(tmp_path: Path, world: World) -> None:
    """Every cell is kept, and no server is started."""
    make_run(tmp_path).execute(EVERYTHING)
    summary = make_run(tmp_path).execute(EVERYTHING)
    assert (0, 4, 0, 1) == (summary.executed, summary.kept, summary.settled, len(world.started))


@pytest.mark.usefixtures("uninstallable")
def test_settled_cells_need_no_environment(tmp_path: Path) -> None:
    """Nothing is installed for them."""
    run = make_run(tmp_path)
    summary = run.execute(Selection(variants=frozenset({("two", "unsupported")})))
    (record,) = run.store.recorded_here("stack").values()
    assert ("none", "", None, 1) == (record.isolation, record.build, record.passed, summary.settled)


@pytest.mark.usefixtures("uninstallable")
def test_a_lock_that_failed_fills_its_column(tmp_path: Path) -> None:
    """Each cell gets the stack's own failure, an unsupported one too."""
    run = make_run(tmp_path, lock=make_lock(versions={}, digest="", failure=CONFLICT))
    summary = run.execute(EVERYTHING)
    assert dict.fromkeys(("a", "b", "c", "unsupported"), "resolve:conflict") == outcomes(run)
    assert (4, CONFLICT.message) == (summary.settled, summary.notice)
    assert {False} == {record.passed for record in run.store.recorded_here("stack").values()}


@pytest.mark.usefixtures("uninstallable")
def test_a_column_is_filled_once(tmp_path: Path) -> None:
    """The same failure a second time adds no line."""
    lock = make_lock(versions={}, digest="", failure=CONFLICT)
    make_run(tmp_path, lock=lock).execute(EVERYTHING)
    journal = (tmp_path / "journal" / "stack.jsonl").read_bytes()
    assert 4 == make_run(tmp_path, lock=lock).execute(EVERYTHING).kept
    assert journal == (tmp_path / "journal" / "stack.jsonl").read_bytes()


def failing_install(monkeypatch: pytest.MonkeyPatch, outcome: str) -> None:
    """The stack cannot be installed."""

    def ensure(*_: object, **__: object) -> Environment:
        raise InstallFailed(Failure(outcome=outcome, message="no room"))

    monkeypatch.setattr(environment, "ensure", ensure)


def test_an_install_that_failed_fills_what_was_to_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unsupported cell stays unsupported: it needed no environment."""
    failing_install(monkeypatch, "install:build")
    run = make_run(tmp_path)
    summary = run.execute(EVERYTHING)
    assert {
        **dict.fromkeys("abc", "install:build"),
        "unsupported": "setup:unsupported",
    } == outcomes(run)
    assert (0, 1, "no room") == (summary.executed, summary.settled, summary.notice)


@pytest.mark.parametrize("outcome", ["install:network", "install:disk-full"])
def test_a_failure_of_the_machine_is_recorded_and_then_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    """The stack was not judged. The same command can continue it."""
    failing_install(monkeypatch, outcome)
    run = make_run(tmp_path)
    with pytest.raises(UserError, match=f"Stack stack was not judged: {outcome}."):
        run.execute(EVERYTHING)
    assert {**dict.fromkeys("abc", outcome), "unsupported": "setup:unsupported"} == outcomes(run)
    assert {None} == {record.passed for record in run.store.recorded_here("stack").values()}


def test_after_a_failure_of_the_machine_the_cells_are_run(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spurious outcome keeps no cell."""
    with monkeypatch.context() as patched:
        failing_install(patched, "install:network")
        with pytest.raises(UserError):
            make_run(tmp_path).execute(EVERYTHING)
    assert 3 == make_run(tmp_path).execute(EVERYTHING).executed


def test_a_stopped_run_keeps_what_had_ended(tmp_path: Path, world: World) -> None:
    """The next run does the rest."""

    class Impatient(Watcher):
        """Interrupts after the second cell."""

        def ended(self, record: Record, output: str) -> None:
            super().ended(record, output)
            if record.cell.variant == "b":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_run(tmp_path, watcher=Impatient()).execute(EVERYTHING)
    assert 1 == world.closed
    run = make_run(tmp_path)
    assert {"a", "b", "unsupported"} == set(outcomes(run))
    assert (1, 3) == ((summary := run.execute(EVERYTHING)).executed, summary.kept)


def test_a_long_message_is_cut(tmp_path: Path, world: World) -> None:
    """The observation has all of it."""
    broken = make_observation(raised=make_raised("x" * 2000), reached="step")
    world.answers["a"] = [Answer(broken, Ended(exit=0), wall_s=0.5)]
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    record = run.store.recorded_here("stack")[make_cell(scenario="one", variant="a")]
    assert (500, broken) == (len(record.message), record.observation)


def test_the_resolvers_explanation_is_kept(tmp_path: Path) -> None:
    """It fills a column, and no other place has it."""
    run = make_run(
        tmp_path,
        lock=make_lock(versions={}, digest="", failure=replace(CONFLICT, message="x" * 6000)),
    )
    run.execute(EVERYTHING)
    assert {5000} == {len(record.message) for record in run.store.recorded_here("stack").values()}


def test_only_one_run_uses_an_environment(tmp_path: Path, world: World) -> None:
    """No other run uses the environment while its cells run."""

    class Curious(Watcher):
        """Checks whether the environment is held."""

        def ended(self, record: Record, output: str) -> None:
            assert files.is_held(tmp_path / "environments" / ".stack.lock")
            super().ended(record, output)

    make_run(tmp_path, watcher=(watcher := Curious())).execute(EVERYTHING)
    assert (3, False) == (
        len(watcher.outputs),
        files.is_held(tmp_path / "environments" / ".stack.lock"),
    )


def test_what_another_run_recorded_meanwhile_is_kept(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that waited for the records makes its plan again, and reports that it waits."""
    watcher = Watcher()
    run = make_run(tmp_path, watcher=watcher)
    with monkeypatch.context() as patched:

        @contextmanager
        def another_first(path: Path, waiting: Callable[[], object]) -> Iterator[None]:
            """A lock that another process with the same run holds until it is done."""
            patched.undo()
            waiting()
            make_run(tmp_path).execute(EVERYTHING)
            yield

        patched.setattr(store, "held", another_first)
        summary = run.execute(EVERYTHING)
    assert (0, 4, "stack: waiting for another run of this stack") == (
        summary.executed,
        summary.kept,
        watcher.stages[0],
    )


def test_what_a_killed_run_left_is_deleted(tmp_path: Path) -> None:
    """Its process has ended, so its lock is free. The folder of a living process is not touched."""
    for name in ("living", "dead"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.lock").touch()
    with files.held(tmp_path / "living.lock"), workplace(tmp_path, "own") as directory:
        assert (tmp_path / "own").samefile(directory)
        assert ["living", "living.lock", "own", "own.lock"] == sorted(
            path.name for path in tmp_path.iterdir()
        )
    assert ["living", "living.lock"] == sorted(path.name for path in tmp_path.iterdir())


def test_failed_cells_are_the_judged_ones_with_misuse_last() -> None:
    """They are listed at the end of a run."""
    records = [
        make_record("update:none", make_cell(variant="a"), role=Role.MISUSE),
        make_record("step:exception", make_cell(variant="c")),
        make_record("step:exception", make_cell(variant="b")),
        make_record("process:lost", make_cell(variant="d"), passed=None),
        make_record(cell=make_cell(variant="e")),
    ]
    assert ["b", "c", "a"] == [record.cell.variant for record in failed(records)]


def test_a_runs_name_tells_when_it_began() -> None:
    """Names sort by time."""
    moment = dt.datetime.strptime(new_run_id().partition("-")[0], "%Y%m%dT%H%M%S").replace(
        tzinfo=dt.UTC
    )
    assert abs(dt.datetime.now(dt.UTC) - moment) < dt.timedelta(minutes=1)
