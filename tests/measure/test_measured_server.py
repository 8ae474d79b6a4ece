"""A measured server keeps a warm script. Errors are reported, and the next script starts."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from gradmatrix.measure.servers import (
    Block,
    Broken,
    Contender,
    Exhausted,
    Killed,
    MeasuredServer,
)
from gradmatrix.run.server import Server, ServerDied
from tests.conftest import ends, is_running, needs_fork
from tests.pacing import MIB, a_runner, asks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gradmatrix.run.server import Request

pytestmark = [needs_fork, pytest.mark.slow]
STEPS = 20


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredServer]:
    """One server for tests that do not harm it."""
    runner = a_runner(tmp_path_factory.mktemp("shared"))
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredServer]:
    """A server that a test may end, and that is then started again.

    Its scripts hold 64 MiB more.
    """
    own = a_runner(tmp_path_factory.mktemp("own"), {"HELD_MIB": "64"})
    yield own
    own.close()


def server_pid(runner: MeasuredServer) -> int:
    """The process id of its server."""
    assert runner._server is not None  # noqa: SLF001  (to be killed)
    return runner._server._process.pid  # noqa: SLF001  (the same)


def cell_pid(runner: MeasuredServer) -> int:
    """The process id of its script."""
    assert runner._cell is not None  # noqa: SLF001  (to be looked at)
    assert runner._cell.pid is not None  # noqa: SLF001  (the same)
    return runner._cell.pid  # noqa: SLF001  (the same)


def begin_and_run(runner: MeasuredServer, request: Callable[[Path], Request], steps: int) -> None:
    """Start a script and run one block."""
    runner.begin(request)
    runner.block(steps)


def test_a_block_counts_no_lead_in(shared: MeasuredServer) -> None:
    """The caches hold another process's data in the first step."""
    shared.begin(asks())
    taken = shared.block(STEPS)
    shared.end()
    assert len(taken) == STEPS


def test_after_its_warm_up_it_knows_what_a_step_takes(shared: MeasuredServer) -> None:
    """The time is in seconds."""
    shared.begin(asks())
    shared.end()
    assert shared.step_s > 0


def test_a_warm_up_that_does_not_end_is_measured_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is longer than the last one. Warm-up stops after five seconds."""
    runner = a_runner(tmp_path)
    times = [0.3 + 0.1 * number for number in range(100)]

    def block(steps: int) -> tuple[float, ...]:
        taken, times[:steps] = tuple(times[:steps]), []
        return taken

    monkeypatch.setattr(runner, "block", block)
    runner.warm_up()
    assert (False, True) == (runner.steady, sum(times) > 0)


def test_the_server_outlives_its_scripts(shared: MeasuredServer) -> None:
    """All scripts share one import."""
    servers = set()
    for _ in range(2):
        shared.begin(asks())
        servers.add(server_pid(shared))
        shared.end()
    assert len(servers) == 1


def test_a_script_that_ends_can_be_started_again(shared: MeasuredServer) -> None:
    """It does not run, and then it runs again."""
    with pytest.raises(Exhausted):  # its warm-up takes all that it has, where the machine is busy
        begin_and_run(shared, asks("short"), 1000)
    ended = shared.running
    shared.end()
    shared.begin(asks())
    again = shared.running
    shared.end()
    assert (False, True) == (ended, again)


def test_after_a_script_that_hangs_the_next_one_runs(shared: MeasuredServer) -> None:
    """The next script does not read commands for the first one."""
    with pytest.raises(Broken):
        begin_and_run(shared, asks("hangs", timeout_s=2), STEPS)
    shared.end()
    shared.begin(asks())
    assert STEPS == len(shared.block(STEPS))
    shared.end()


def test_after_a_script_that_was_killed_between_two_blocks_the_next_one_runs(
    shared: MeasuredServer,
) -> None:
    """It did not read its command, which the server would take for a request."""
    shared.begin(asks())
    os.kill(script := cell_pid(shared), signal.SIGKILL)
    assert ends(script)
    with pytest.raises(Killed, match="killed from outside by signal 9"):
        shared.block(STEPS)
    shared.end()
    shared.begin(asks())
    assert STEPS == len(shared.block(STEPS))
    shared.end()


def test_a_stopped_script_leaves_no_folder(shared: MeasuredServer) -> None:
    """There are many of them, and a trainer's checkpoints are large."""
    shared.begin(asks())
    before = list(shared.directory.glob("cell-*"))
    shared.end()
    assert (1, []) == (len(before), list(shared.directory.glob("cell-*")))


def test_a_python_that_is_not_there_is_reported(tmp_path: Path) -> None:
    """Each attempt gives the error, and nothing must be closed."""
    runner = MeasuredServer(Contender(tmp_path / "nowhere"), tmp_path, [], {}, ())
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            runner.open()
    runner.close()
    assert not runner.running


class Clocked:
    """A script whose blocks have given times."""

    def __init__(self, *blocks: tuple[float, ...]) -> None:
        self.blocks = list(blocks)

    def run(self, _steps: int) -> Block:
        """The next block."""
        return Block(self.blocks.pop(0), None)


def test_a_block_whose_clock_ran_backwards_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes the lead-in, because the next step is then too long."""
    runner = a_runner(tmp_path)
    monkeypatch.setattr(
        runner, "_cell", Clocked((0.1, -0.01, 0.1), (0.0, 0.1, 0.2), (0.1, 0.2, 0.3))
    )
    assert (0.2, 0.3) == runner.block(2)


def test_a_clock_that_only_runs_backwards_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measuring stops after a few attempts."""
    runner = a_runner(tmp_path)
    monkeypatch.setattr(runner, "_cell", Clocked(*[(-0.1, 0.1)] * 100))
    with pytest.raises(Broken, match="its clock ran backwards"):
        runner.block(1)


def test_what_one_script_had_to_import_another_server_imports_ahead(
    shared: MeasuredServer, runner: MeasuredServer
) -> None:
    """Then no measured process has to import it."""
    runner.learn(shared.scout(asks("imports_late")))
    runner.begin(asks("imports_late"))
    runner.end()
    assert [True, False] == [had_to_import(each) for each in (shared, runner)]


def had_to_import(runner: MeasuredServer) -> bool:
    """The modules that its last script imported."""
    return (runner.directory / "late.txt").read_text(encoding="ascii") == "True"


def test_a_candidate_that_holds_64_mib_more_has_a_higher_peak(
    shared: MeasuredServer, runner: MeasuredServer
) -> None:
    """The difference is 64 MiB, within a few."""
    peaks = []
    for each in (shared, runner):
        each.begin(asks())
        peaks.append(each.peak_bytes or 0)
        each.end()
    assert 48 * MIB < peaks[1] - peaks[0] < 80 * MIB


def test_a_killed_server_is_reported_and_another_one_started(runner: MeasuredServer) -> None:
    """The next script starts it. The running script ends with the old server."""
    runner.begin(asks())
    script, server = cell_pid(runner), server_pid(runner)
    os.kill(server, signal.SIGKILL)
    assert ends(script)
    with pytest.raises((ServerDied, OSError)):
        runner.block(STEPS)
    runner.end()
    runner.begin(asks())
    assert (STEPS, True) == (len(runner.block(STEPS)), server_pid(runner) != server)
    runner.end()


def test_a_server_that_its_script_kills_is_reported(runner: MeasuredServer) -> None:
    """The error comes at once, because no answer can come."""
    with pytest.raises(ServerDied):
        begin_and_run(runner, asks("kills_server"), STEPS)
    runner.end()


@pytest.mark.slow
def test_a_server_that_stops_answering_is_ended(
    runner: MeasuredServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late answer would be taken for an answer to another request."""
    monkeypatch.setattr("gradmatrix.measure.servers.START_TIMEOUT_S", 0.5)
    runner.begin(asks())
    server = server_pid(runner)
    os.kill(server, signal.SIGSTOP)
    runner.end()
    assert ends(server)
    runner.begin(asks())
    assert runner.running
    runner.end()


@pytest.mark.slow
def test_where_a_server_cannot_fork_each_script_has_its_own(tmp_path: Path) -> None:
    """This is so on macOS and Windows, and with libraries that open CUDA on import."""
    runner = a_runner(tmp_path, fork=False)
    servers = []
    try:
        for _ in range(2):
            runner.begin(asks())
            servers.append((server_pid(runner), len(runner.block(STEPS))))
            runner.end()
    finally:
        runner.close()
    assert ([STEPS, STEPS], 2) == (
        [steps for _, steps in servers],
        len({pid for pid, _ in servers}),
    )


@pytest.mark.slow
def test_a_server_in_which_cuda_was_opened_does_not_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork could not use it."""
    entered = Server.__enter__

    def opened(server: Server) -> Server:
        entered(server)
        server.cuda_initialized = True
        return server

    monkeypatch.setattr(Server, "__enter__", opened)
    runner = a_runner(tmp_path)
    try:
        runner.begin(asks())
        assert (False, STEPS) == (runner.fork, len(runner.block(STEPS)))
    finally:
        runner.close()


def test_a_closed_runner_leaves_no_process(tmp_path: Path) -> None:
    """Script and server end, also in the middle of a measurement."""
    runner = a_runner(tmp_path)
    runner.begin(asks())
    pids = [cell_pid(runner), server_pid(runner)]
    runner.close()
    assert [False, False] == [is_running(pid) for pid in pids]


def test_peak_memory_is_that_of_the_last_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is None if the system does not report it."""
    runner = a_runner(tmp_path)
    runner.peak_bytes = 1
    monkeypatch.setattr(runner, "_cell", Clocked((0.1, 0.1, 0.1)))
    runner.block(2)
    assert runner.peak_bytes is None
