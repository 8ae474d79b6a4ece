"""Servers that are started when needed and again when lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gradmatrix.judge.verdict import Ended
from gradmatrix.run.plan import Selection
from gradmatrix.run.pool import ATTEMPTS
from gradmatrix.run.server import Answer
from tests.factories import make_cell, make_observation, make_raised, make_scenario, make_variant
from tests.pretended import EVERYTHING, Watcher, World, make_run, outcomes, pretend

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.run.pool import Isolation
    from gradmatrix.run.stack import StackRun

LOST = Answer(None, Ended(lost=True), wall_s=0.125)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Every stack is installed and every cell trains, unless a test says otherwise."""
    return pretend(monkeypatch)


def test_a_lost_cell_is_tried_again(tmp_path: Path, world: World) -> None:
    """It runs in a new server, because the old one has ended."""
    world.answers["b"] = [LOST]
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("trains", ["one/a", "one/b", "one/b", "two/c"], 2) == (
        outcomes(run)["b"],
        world.asked,
        len(world.started),
    )


@pytest.mark.parametrize("ended", [Ended(signal=9), Ended(exit=70)])
def test_a_failure_of_the_machine_is_repeated_and_counted(
    tmp_path: Path, world: World, ended: Ended
) -> None:
    """The second attempt is a fork of the same server, further ones get a new server."""
    world.answers["a"] = [Answer(None, ended, wall_s=0.125)]
    world.answers["b"] = [Answer(None, ended, wall_s=0.125)] * 2
    run = make_run(tmp_path)
    summary = run.execute(EVERYTHING)
    assert {"trains", "setup:unsupported"} == set(outcomes(run).values())
    assert (3, 2) == (sum(summary.repeated.values()), len(world.started))


def test_an_import_that_the_machine_ended_is_repeated(tmp_path: Path, world: World) -> None:
    """One kill is no fault of the library that was just being imported."""
    world.kills_once["two"] = Ended(signal=9)
    run = make_run(tmp_path)
    assert {"process:lost": 1} == run.execute(EVERYTHING).repeated
    assert {"trains", "setup:unsupported"} == set(outcomes(run).values())


def test_no_cell_can_guess_the_folder_of_another(tmp_path: Path, world: World) -> None:
    """Two runs of one cell get folders with names of their own."""
    for _ in range(2):
        make_run(tmp_path).execute(Selection(fresh=True))
    assert 6 == len(set(world.folders)) == len({folder.parent.name for folder in world.folders})


def test_a_cell_that_stays_lost_is_recorded_as_lost(tmp_path: Path, world: World) -> None:
    """It is tried a few times. The other cells are run."""
    world.answers["b"] = [LOST] * ATTEMPTS
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("process:lost", "trains", ATTEMPTS) == (
        outcomes(run)["b"],
        outcomes(run)["c"],
        world.asked.count("one/b"),
    )


def test_a_lost_process_that_left_an_observation_is_not_tried_again(
    tmp_path: Path, world: World
) -> None:
    """What is in the observation has happened."""
    world.answers["b"] = [Answer(make_observation(), Ended(lost=True), wall_s=0.5)]
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("trains", 1) == (outcomes(run)["b"], world.asked.count("one/b"))


def test_a_cell_that_ends_differently_under_one_key_is_flaky(tmp_path: Path, world: World) -> None:
    """Its record keeps the earlier outcomes; failures of the machine do not count."""
    broken = Answer(None, Ended(exit=3), wall_s=0.125)
    for answers in ([], [LOST] * ATTEMPTS, [broken], []):
        world.answers["b"] = answers
        run = make_run(tmp_path)
        run.execute(Selection(fresh=True))
    newest = {cell.variant: record for cell, record in run.store.recorded_here("stack").items()}
    assert ("trains", "process:exit-3", "trains") == newest["b"].judged_runs
    assert {"b"} == {variant for variant, record in newest.items() if record.flaky}


def test_a_scenario_that_cannot_be_imported_fails_alone(tmp_path: Path, world: World) -> None:
    """Its cells are not sent to the server."""
    world.raises["one"] = make_raised("No module named 'rich'", "ModuleNotFoundError")
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("import:missing-module", "import:missing-module", "trains") == tuple(
        outcomes(run)[name] for name in "abc"
    )
    record = run.store.recorded_here("stack")[make_cell(scenario="one", variant="a")]
    assert ("ModuleNotFoundError: No module named 'rich'", "none") == (
        record.message,
        record.isolation,
    )
    assert ["two/c"] == world.asked


def test_an_import_that_raises_something_else_is_an_exception(tmp_path: Path, world: World) -> None:
    """The module exists but does not work."""
    world.raises["two"] = make_raised("cannot import name 'x'", "ImportError")
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert "import:exception" == outcomes(run)["c"]


def test_a_scenario_whose_import_ends_the_process_fails_alone(tmp_path: Path, world: World) -> None:
    """The others share a server without it."""
    world.kills["one"] = Ended(signal=11)
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("process:signal-11", "process:signal-11", "trains") == tuple(
        outcomes(run)[name] for name in "abc"
    )
    assert [["one", "two"], ["one"], ["two"]] == world.started
    record = run.store.recorded_here("stack")[make_cell(scenario="one", variant="a")]
    assert "while importing: killed by signal 11" == record.message


TIMED_OUT = Answer(None, Ended(signal=9, timed_out=True), wall_s=60)


def isolations(run: StackRun) -> dict[str, str]:
    """How each variant that ran was isolated."""
    return {
        cell.variant: r.isolation
        for cell, r in run.store.recorded_here("stack").items()
        if r.isolation != "none"
    }


def test_a_timeout_in_a_fork_of_several_threads_is_tried_in_a_fresh_process(
    tmp_path: Path, world: World
) -> None:
    """Such a fork may wait forever for a lock. Its server runs the next cell."""
    world.threads, world.answers["b"] = 2, [TIMED_OUT]
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert {"a": "fork", "b": "fresh", "c": "fork"} == isolations(run)
    assert ("trains", [["one", "two"], ["one"]], [True, False]) == (
        outcomes(run)["b"],
        world.started,
        world.forks,
    )


def test_a_timeout_that_a_fresh_process_confirms_is_recorded(tmp_path: Path, world: World) -> None:
    """The script itself never ends."""
    world.threads, world.answers["b"] = 2, [TIMED_OUT, TIMED_OUT]
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ("process:timeout", 2) == (outcomes(run)["b"], world.asked.count("one/b"))


@pytest.mark.parametrize(("threads", "isolation"), [(1, "fork"), (2, "fresh")])
def test_a_timeout_that_no_fork_can_have_caused_is_believed(
    tmp_path: Path, world: World, threads: int, isolation: Isolation
) -> None:
    """A fork of one thread is safe, and a fresh process is no fork."""
    world.threads, world.answers["b"] = threads, [TIMED_OUT]
    run = make_run(tmp_path, isolation=isolation)
    run.execute(EVERYTHING)
    assert ("process:timeout", 1) == (outcomes(run)["b"], world.asked.count("one/b"))


def test_a_server_with_cuda_open_is_not_forked_again(tmp_path: Path, world: World) -> None:
    """An import for a cell opened CUDA. The rest of the stack gets a process for each cell."""
    world.opens_cuda = "one/a"
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert {"a": "fork", "b": "fresh", "c": "fresh"} == isolations(run)
    assert ([["one", "two"], ["one"], ["two"]], [True, False, False]) == (
        world.started,
        world.forks,
    )


def test_a_server_that_opens_cuda_while_importing_is_never_forked(
    tmp_path: Path, world: World
) -> None:
    """Not even the first cell is a fork."""
    world.importing_opens_cuda = True
    run = make_run(tmp_path)
    run.execute(EVERYTHING)
    assert ({"a": "fresh", "b": "fresh", "c": "fresh"}, [True, False, False, False]) == (
        isolations(run),
        world.forks,
    )


def test_a_failed_import_comes_with_what_the_server_printed(tmp_path: Path, world: World) -> None:
    """The end of the output is shown, also if the process died while it imported."""
    world.log = tmp_path / "server.txt"
    world.log.write_text("loading a library", encoding="utf-8")
    world.raises["one"] = make_raised()
    world.kills["two"] = Ended(signal=11, output_tail="Fatal Python error")
    watcher = Watcher()
    make_run(tmp_path, watcher=watcher).execute(EVERYTHING)
    assert [
        ("a", "loading a library"),
        ("b", "loading a library"),
        ("c", "Fatal Python error"),
    ] == watcher.outputs


def test_fresh_isolation_gives_every_cell_a_process(tmp_path: Path, world: World) -> None:
    """It imports the cell's own scenario only, and is not forked."""
    run = make_run(tmp_path, isolation="fresh")
    run.execute(EVERYTHING)
    assert ([["one"], ["one"], ["two"]], [False] * 3) == (world.started, world.forks)
    assert {"fresh", "none"} == {
        record.isolation for record in run.store.recorded_here("stack").values()
    }


def make_run_with_scripts(folder: Path, isolation: Isolation = "fork") -> StackRun:
    """A run of two scenarios and of two scripts of the user's own."""
    run = make_run(folder, isolation=isolation)
    own = [make_scenario(name, make_variant(name), arguments=()) for name in ("mine", "other")]
    return replace(run, scenarios=(*run.scenarios, *own))


def test_scripts_of_the_users_own_share_the_server(tmp_path: Path, world: World) -> None:
    """Their libraries are imported with the scenarios."""
    make_run_with_scripts(tmp_path).execute(EVERYTHING)
    assert ([["one", "two", "mine", "other"]], [["mine", "other"]]) == (world.started, world.ahead)


def test_a_script_whose_libraries_end_the_server_imports_them_itself(
    tmp_path: Path, world: World
) -> None:
    """It may end before it imports a library that it names. The other scripts run as before."""
    world.kills["mine"] = Ended(signal=11)
    run = make_run_with_scripts(tmp_path)
    run.execute(EVERYTHING)
    assert {"trains", "setup:unsupported"} == set(outcomes(run).values())
    everything = ["one", "two", "mine", "other"]
    without = ["one", "two", "other"]
    assert [
        everything,
        ["one"],
        everything,
        ["two"],
        everything,
        ["mine"],
        [],
        without,
    ] == world.started


def test_in_a_fresh_process_a_script_imports_everything_itself(
    tmp_path: Path, world: World
) -> None:
    """It imports in its own order, as it would without this project."""
    make_run_with_scripts(tmp_path, "fresh").execute(EVERYTHING)
    assert [["one"], ["one"], ["two"], [], []] == world.started


def test_an_import_that_fails_in_a_scenario_is_none_of_a_script(
    tmp_path: Path, world: World
) -> None:
    """This holds even if both are the same file."""
    world.raises["one"] = make_raised()
    run = make_run_with_scripts(tmp_path)
    same = make_scenario("same", make_variant("same"), arguments=("a",), path="scenarios/one.py")
    run = replace(run, scenarios=(*run.scenarios, same))
    run.execute(EVERYTHING)
    assert ("import:exception", "trains") == (outcomes(run)["a"], outcomes(run)["same"])
