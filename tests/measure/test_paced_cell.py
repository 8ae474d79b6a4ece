"""A real script runs one block of steps at a time and waits in between.

Errors are reported soon.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradmatrix.measure import servers
from gradmatrix.measure.servers import Broken, Exhausted, PacedCell
from gradmatrix.run.server import Server
from gradmatrix.stacks import sandbox
from tests.conftest import (
    OLDEST,
    PATIENCE_S,
    ends,
    is_running,
    needs_fork,
    python_of,
    waits_until,
)
from tests.pacing import MIB, SCRIPT, asks

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [needs_fork, pytest.mark.slow]
STEPS = 20
SHORT_S = 2.0


class Bench:
    """A server, and scripts that it runs one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.server = Server(
            python_of(OLDEST), [SCRIPT], folder / "server", sandbox.variables(1)
        ).__enter__()

    def cell(
        self, variant: str, *, timeout_s: float = PATIENCE_S, memory_bytes: int | None = None
    ) -> PacedCell:
        """A script that has not been started."""
        self.count += 1
        request = asks(variant, timeout_s=timeout_s, memory_bytes=memory_bytes)(
            self.folder / str(self.count)
        )
        return PacedCell(self.server, request)

    def started(
        self, variant: str, *, timeout_s: float = PATIENCE_S, memory_bytes: int | None = None
    ) -> PacedCell:
        """A script that waits after its first step."""
        cell = self.cell(variant, timeout_s=timeout_s, memory_bytes=memory_bytes)
        cell.start()
        return cell


@pytest.fixture(scope="module")
def paces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One server for all tests; each test shows that the last one left it in order."""
    bench = Bench(tmp_path_factory.mktemp("paces"))
    yield bench
    bench.server.close()


def blocks(cell: PacedCell) -> None:
    """Run the first step and some blocks."""
    cell.start()
    cell.run(STEPS)


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_block_has_as_many_steps_as_were_asked_for(paces: Bench) -> None:
    """Each step has its seconds. The first step is not a block."""
    cell = paces.cell("control")
    first = cell.start()
    found = [cell.run(STEPS), cell.run(3)]
    cell.stop()
    assert [0, STEPS, 3] == [len(block.step_times_s) for block in (first, *found)]
    assert all(time_s > 0 for block in found for time_s in block.step_times_s)


def test_between_blocks_the_script_takes_no_processor_time(paces: Bench) -> None:
    """Otherwise it would disturb the measured script."""
    cell = paces.started("control")
    cell.run(STEPS)
    assert cell.pid is not None
    before = processor_s(cell.pid)
    time.sleep(0.5)
    taken = processor_s(cell.pid) - before
    cell.stop()
    assert taken <= 0.02


def test_peak_memory_is_reported(paces: Bench) -> None:
    """It is the memory of the process in bytes. Torch alone takes tens of megabytes."""
    cell = paces.started("control")
    peak = cell.run(STEPS).peak_memory_bytes
    cell.stop()
    assert peak is not None
    assert 30 * MIB < peak < 4096 * MIB


def test_the_script_has_an_empty_standard_input(paces: Bench) -> None:
    """The script must not read the host's commands to the pacer."""
    cell = paces.started("reads_input")
    steps = [len(cell.run(2).step_times_s) for _ in range(3)]
    cell.stop()
    assert ([2, 2, 2], "''") == (
        steps,
        (cell.request.directory / "input.txt").read_text(encoding="utf-8"),
    )


def test_a_script_that_ends_is_exhausted(paces: Bench) -> None:
    """This is no failure: it has no more steps."""
    cell = paces.started("short")
    cell.run(STEPS)
    with pytest.raises(Exhausted, match="no more than 60 steps"):
        cell.run(1000)
    assert cell.pid is None


def test_a_script_that_ends_with_a_block_is_exhausted_by_the_next(paces: Bench) -> None:
    """The last step of 60 has its time."""
    cell = paces.started("short")
    assert len(cell.run(59).step_times_s) == 59
    with pytest.raises(Exhausted):
        cell.run(1)


@pytest.mark.parametrize(
    ("variant", "words"),
    [("raises", "RuntimeError: the loss went away"), ("crashes", "killed by signal 11")],
)
def test_a_script_that_fails_is_reported_with_its_words(
    paces: Bench, variant: str, words: str
) -> None:
    """It is not taken for a script that has ended."""
    cell = paces.started(variant)
    with pytest.raises(Broken) as error:
        cell.run(STEPS)
    assert words == str(error.value)


def test_a_script_that_fails_before_its_first_step_is_reported(paces: Bench) -> None:
    """The error comes when it is started."""
    with pytest.raises(Broken, match="the loss went away"):
        paces.started("raises_early")


@pytest.mark.parametrize("variant", ["hangs", "hangs_early"])
def test_a_script_that_hangs_ends_at_its_timeout(paces: Bench, variant: str) -> None:
    """Its process is ended."""
    cell = paces.cell(variant, timeout_s=SHORT_S)
    with pytest.raises(Broken, match="no answer within 2 s"):
        blocks(cell)
    pid = cell.pid
    assert pid is not None
    cell.stop()
    assert ends(pid)


def test_a_limit_of_memory_holds(paces: Bench) -> None:
    """The script gets no more memory, and reports this."""
    cell = paces.started("exhausts", memory_bytes=256 * MIB)
    with pytest.raises(Broken, match=r"(?i)memory"):
        cell.run(STEPS)


def test_a_stopped_script_is_gone(paces: Bench) -> None:
    """It may be in the middle of its training."""
    cell = paces.started("control")
    pid = cell.pid
    assert pid is not None
    cell.stop()
    assert not is_running(pid)


def test_a_script_that_has_ended_is_not_killed(
    paces: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have its id by then. The server runs the next script."""
    cell = paces.started("control")
    assert cell.pid is not None
    os.kill(cell.pid, signal.SIGKILL)
    assert waits_until(lambda: not paces.server._lines.empty())  # noqa: SLF001  (its last event)
    killed: list[int] = []
    monkeypatch.setattr(servers, "kill_group", killed.append)
    cell.stop()
    monkeypatch.undo()
    assert [] == killed
    paces.started("control").stop()


def test_a_server_runs_plain_cells_afterwards(paces: Bench, tmp_path: Path) -> None:
    """It reads its own requests again."""
    paces.started("control").stop()
    request = asks()(tmp_path / "cell")
    plain = type(request)(**{**vars(request), "paced": False, "timed": 5, "warmup": 1})
    answer = paces.server.run(plain)
    assert answer.observation is not None
    assert (6, None) == (answer.observation.steps, answer.observation.raised)
