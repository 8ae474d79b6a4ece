"""The servers of both sides of a comparison, all alive at once, and the scripts that they fork.

``Servers`` are all of them. A ``MeasuredServer`` is one: it keeps the measured script running. A
``PacedCell`` is that script: it runs a block of optimizer steps at each request. Scripts are pinned
to the quietest processor cores.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from gradmatrix.core.files import NOT_READABLE, tail
from gradmatrix.judge.verdict import Ended, judge
from gradmatrix.measure import statistics
from gradmatrix.run import scenarios
from gradmatrix.run.pool import variables
from gradmatrix.run.server import (
    CAN_FORK,
    IMPORT_TIMEOUT_S,
    STARTED,
    CellEnded,
    Server,
    ServerDied,
    kill_group,
    read_observation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gradmatrix.run.pool import Settings, Source
    from gradmatrix.run.server import Request


PER_SIDE = 6
"""Fresh servers per side."""
LEAD_IN = 1
"""Steps at the beginning of a block that do not count: the caches hold another process's data."""
WARMUP_BLOCK = 4
WARMUP_S = 5.0
"""The longest warm-up of one process. One that is not steady by then is measured, and a notice says
so."""
TRIES = 5
"""How often a block is tried. The clock is made of two readings; if another process takes the core
between them, a step may seem to take less than no time."""
START_TIMEOUT_S = 60.0
SAMPLE_S = 0.2
IDLE = (3, 4)
"""Columns of /proc/stat that count time in which a core did nothing: idle, and waiting for a disk.
"""
SEEDS = random.SystemRandom()
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Contender:
    """One side: an interpreter and environment variables of its own."""

    python: Path
    variables: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def make_servers(
    baseline: Contender,
    candidate: Contender,
    sources: Sequence[Source],
    settings: Settings,
    directory: Path,
    *,
    per_side: int = PER_SIDE,
) -> Iterator[Servers]:
    """The servers of both sides, the baseline's first. They end with the context.

    Args:
        baseline: interpreter and variables of one side.
        candidate: those of the other side.
        sources: the scripts that will be measured.
        settings: limits, threads, and whether servers fork.
        directory: an empty folder for the servers.
        per_side: how many servers each side has.
    """
    threads = settings.limits.threads
    cores = quietest(threads)
    given = variables(threads, sources)
    members = [
        MeasuredServer(
            contender,
            directory / f"{side}-{number}",
            sources,
            given,
            cores,
            fork=settings.isolation == "fork",
        )
        for side, contender in (("baseline", baseline), ("candidate", candidate))
        for number in range(per_side)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool, contextlib.ExitStack() as ending:
        for server in members:
            ending.callback(server.close)
        yield Servers(members, pool)


@dataclass
class Servers:
    """The members of both sides, the baseline's first."""

    members: list[MeasuredServer]
    pool: ThreadPoolExecutor
    """It starts the servers. Its threads live as long as they do: Linux kills a server when the
    thread that started it ends."""
    opening_s: float = math.inf
    """Seconds that starting all servers together took the last time."""

    def open(self) -> None:
        """Start all servers.

        The first server of an environment compiles what it imports, and uses up to 8 % more memory
        for that. So one server of each side is started for that alone.

        Raises:
            ServerDied, OSError: if a server cannot be started.
        """
        half = len(self.members) // 2
        self.each(
            lambda server: server.rehearse(), [*self.members[:half][:1], *self.members[half:][:1]]
        )
        self.renew()

    def renew(self) -> None:
        """Replace all servers by new ones, which import what these have learned to import.

        The sides are started in turn, so that a machine that becomes busy slows both alike.

        Raises:
            ServerDied, OSError: if a server cannot be started.
        """
        self.each(lambda server: server.renew(), self.members)
        half = len(self.members) // 2
        pairs = zip(self.members[:half], self.members[half:], strict=True)
        began = time.monotonic()
        self.each(lambda server: server.open(), [server for pair in pairs for server in pair])
        self.opening_s = time.monotonic() - began

    def each(self, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Do ``task`` with all ``items``, as many at a time as there are cores.

        It raises the first error only when no task is running any more.
        """
        futures = [self.pool.submit(task, item) for item in items]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            for future in futures:
                future.cancel()
        wait(futures)
        for future in done:
            future.result()
        return [future.result() for future in futures]


@dataclass
class MeasuredServer:
    """A server of one side that keeps a script running and runs blocks of its steps."""

    contender: Contender
    directory: Path
    sources: Sequence[Source]
    variables: Mapping[str, str]
    cores: tuple[int, ...]
    """The cores that the script runs on once it is warm; empty means any."""
    fork: bool = CAN_FORK
    """One server forks all processes; otherwise every process has a server of its own."""
    peak_bytes: int | None = None
    """Peak memory of the script so far."""
    steady: bool = False
    """Whether its warm-up has ended."""
    step_s: float = 0.0
    """Seconds of a step at the end of the warm-up."""
    seed: int = field(default_factory=lambda: SEEDS.randrange(1, 2**32))
    """The seed of its server's hashes."""
    lead_in: int = LEAD_IN
    _cell: PacedCell | None = None
    _server: Server | None = None
    _servers: int = 0
    _cells: int = 0
    _learned: list[bytes] = field(default_factory=list)

    def open(self) -> None:
        """Start the server unless it is alive.

        It imports what is measured, and what :meth:`learn` was given.

        Raises:
            ServerDied, OSError: if it cannot be started.
        """
        if self.alive:
            return
        self._shut()
        self._servers += 1
        server = Server(
            self.contender.python,
            [source.path for source in self.sources if not source.own],
            self.directory / f"server-{self._servers}",
            {**self.variables, "PYTHONHASHSEED": str(self.seed), **self.contender.variables},
            fork=self.fork,
            ahead=[source.path for source in self.sources if source.own],
        )
        self._server = server.__enter__()
        # An import opened CUDA, which no fork can use after that.
        if self.fork and server.cuda_initialized:
            self.fork = False
            self._shut()
            self.open()
        for line in self._learned:
            self._import(line)

    def renew(self) -> None:
        """End the server; the next one has another hash seed."""
        self.close()
        self.seed = SEEDS.randrange(1, 2**32)

    @property
    def alive(self) -> bool:
        """Whether its server is alive."""
        return self._server is not None and self._server.alive

    def rehearse(self) -> None:
        """Start a server and end it, so that what it imports is compiled.

        Raises:
            ServerDied, OSError: if it cannot be started.
        """
        self.open()
        self._shut()

    def scout(self, request: Callable[[Path], Request]) -> bytes:
        """Run the first step; returns what the script had to import, as a line for :meth:`learn`.

        Raises:
            Exhausted, Broken, Killed, ServerDied: if the script does not get that far.
        """
        line = self._started(request).imported
        self.end()
        return line

    def learn(self, line: bytes) -> None:
        """Import what the scout's script imported; every server that replaces this one does so too.

        Raises:
            Broken, ServerDied: if that fails.
        """
        self.open()
        if line not in self._learned:
            self._import(line)
            self._learned.append(line)

    def _import(self, line: bytes) -> None:
        assert self._server is not None
        self._server.send(line.decode() + "\n")
        if self._server.event(IMPORTED, time.monotonic() + IMPORT_TIMEOUT_S) is None:
            self._shut()
            raise Broken(f"importing took more than {IMPORT_TIMEOUT_S:g} s")

    def begin(self, request: Callable[[Path], Request]) -> None:
        """Start the script, run it until its step times are steady, and pin it.

        Raises:
            Exhausted, Broken, Killed, ServerDied: if the script does not get that far.
        """
        cell = self._started(request)
        self.warm_up()
        if cell.pid is not None:
            pin(cell.pid, self.cores)

    def _started(self, request: Callable[[Path], Request]) -> PacedCell:
        """The script in a new process after its first step; the process before it is ended."""
        self.end()
        self.open()
        assert self._server is not None
        self._cells += 1
        self._cell = PacedCell(self._server, request(self.directory / f"cell-{self._cells}"))
        self._cell.start()
        return self._cell

    def warm_up(self) -> None:
        """Run until the marginal standard error shows that the warm-up is over."""
        times: list[float] = []
        self.steady = False
        while not self.steady and sum(times) < WARMUP_S:
            times += self.block(max(WARMUP_BLOCK, len(times)))
            start = statistics.steady_from(times)
            self.steady = start is not None
        tail = times[start or len(times) // 2 :]
        self.step_s = sorted(tail)[len(tail) // 2]

    @property
    def running(self) -> bool:
        """Whether the script is still running."""
        return self._cell is not None and self._cell.pid is not None

    def block(self, steps: int) -> tuple[float, ...]:
        """Run a block; returns the seconds of each step after the lead-in.

        The block is run again if its clock ran backwards.

        Raises:
            Exhausted, Broken, Killed, ServerDied: if the script cannot go on.
        """
        assert self._cell is not None
        for _ in range(TRIES):
            block = self._cell.run(self.lead_in + steps)
            self.peak_bytes = block.peak_memory_bytes
            if all(step_s > 0 for step_s in block.step_times_s):
                return block.step_times_s[self.lead_in :]
        raise Broken(f"its clock ran backwards in each of {TRIES} blocks")

    def end(self) -> None:
        """Stop the script and remove its folder. The server stays alive if it can."""
        cell, self._cell = self._cell, None
        if cell is None:
            return
        try:
            cell.stop()
        except (ServerDied, Broken, OSError):
            self._shut()
        if cell.unheard or not self.fork:
            self._shut()
        shutil.rmtree(cell.request.directory, ignore_errors=True)

    def close(self) -> None:
        """Stop the script and the server."""
        self.end()
        self._shut()

    def _shut(self) -> None:
        """End the server. It is started again when it is needed."""
        server, self._server = self._server, None
        if server is not None:
            server.close()


class Exhausted(Exception):
    """The script ran to its end and has no more steps. A new process can go on."""


class Broken(Exception):
    """The script failed, died or took too long; the message says which."""


class Killed(Exception):
    """Something outside ended the script. A new process can go on."""


class Block(msgspec.Struct, frozen=True, tag_field="event", tag="block"):
    """What a block of steps took."""

    step_times_s: tuple[float, ...]
    """Seconds of each step; the first step begins with cold caches."""
    peak_memory_bytes: int | None
    """Peak memory of the process since its start: resident set, or what torch's allocator held on a
    GPU."""


class Imported(msgspec.Struct, frozen=True, tag_field="event", tag="imported"):
    """The server has imported the requested modules."""


class _Imports(msgspec.Struct):
    """What a cell had to import itself, as ``observe/protocol.py`` describes it."""

    schema: int
    modules: list[str]


IMPORTED, _IMPORTS = msgspec.json.Decoder(Imported), msgspec.json.Decoder(_Imports)
_EVENT: msgspec.json.Decoder[Block | CellEnded] = msgspec.json.Decoder(Block | CellEnded)


class PacedCell:
    """A running script in ``server``; it waits after its first optimizer step."""

    def __init__(self, server: Server, request: Request) -> None:
        self.server = server
        self.request = request
        self.pid: int | None = None
        self.unheard = False
        """It failed after it was asked for a block. If it has not read that line, the server takes
        the line for a request."""

    def start(self) -> Block:
        """Start the script and let it run to the end of its first step.

        Raises:
            Exhausted, Broken, Killed, ServerDied: if the script does not get that far.
        """
        self.request.directory.mkdir(parents=True, exist_ok=True)
        self.server.send(self.request.line())
        started = self.server.event(STARTED, time.monotonic() + START_TIMEOUT_S)
        if started is None:
            self.server.close()  # or it would start later, when its event is no longer awaited
            raise Broken("its process did not start in time")
        self.pid = started.pid
        return self._block()

    @property
    def imported(self) -> bytes:
        """The line that asks another server to import what this cell had to import itself."""
        try:
            imports = _IMPORTS.decode((self.request.directory / "imported.json").read_bytes())
        except (OSError, *NOT_READABLE) as error:
            raise Broken("the list of its imports cannot be read") from error
        return msgspec.json.encode(imports)

    def run(self, steps: int) -> Block:
        """Run ``steps`` optimizer steps.

        Raises:
            Exhausted, Broken, Killed, ServerDied: if the script cannot go on.
        """
        self.server.send(f'{{"steps": {steps}}}\n')
        try:
            return self._block()
        except (Broken, Killed):
            self.unheard = True
            raise

    def stop(self) -> None:
        """End the script; a server that forks is then ready for the next one.

        Raises:
            Broken, ServerDied: if the server is not ready.
        """
        if self.pid is None:
            return
        pid, self.pid = self.pid, None
        if self._has_ended():
            return  # another process may have its id by now
        kill_group(pid)
        if self.server.fork:
            self._skip_blocks(START_TIMEOUT_S)

    def _has_ended(self) -> bool:
        """Whether the end of the script has been reported."""
        try:
            self._skip_blocks(0)
        except Broken:
            return False
        return True

    def _skip_blocks(self, timeout_s: float) -> None:
        """Wait for the end of the script; blocks may have been sent before it."""
        while isinstance(self._event(timeout_s), Block):
            pass

    def _block(self) -> Block:
        """The next block."""
        event = self._event(self.request.timeout_s)
        if isinstance(event, Block):
            return event
        self.pid = None
        raise self._end(event)

    def _event(self, timeout_s: float) -> Block | CellEnded:
        """The script's next event."""
        line = self.server.line(time.monotonic() + timeout_s, self.request.directory / "output.txt")
        if line is None:
            raise Broken(f"no answer within {timeout_s:g} s")
        try:
            return _EVENT.decode(line)
        except NOT_READABLE as error:
            raise Broken(f"it does not keep the protocol: {error}") from error

    def _end(self, event: CellEnded) -> Exhausted | Broken | Killed:
        """Why a script ended by itself."""
        seen = read_observation(self.request.directory)
        if seen is not None and seen.raised is None and seen.skipped is None and not seen.no_device:
            return Exhausted(
                f"it has no more than {seen.steps} steps and ended while it warmed up or was "
                "measured; several hundred steps are usually enough"
            )
        ended = Ended(
            event.signal, event.exit, output_tail=tail(self.request.directory / "output.txt")
        )
        found = judge(seen, ended)
        message = scenarios.without_folders(found.message, self.request.folders)
        return Killed(message) if found.outcome.spurious else Broken(message)


def quietest(count: int) -> tuple[int, ...]:
    """The ``count`` least busy cores that this process may use.

    Empty if there are not more than that, or if the system does not report it. Two cores may share
    circuits; then the busier one slows the other, and no choice here can prevent that.
    """
    if not hasattr(os, "sched_getaffinity"):
        return ()
    usable = os.sched_getaffinity(0)
    before = _busy()
    time.sleep(SAMPLE_S)
    after = _busy()
    known = sorted(
        (core for core in usable if core in before and core in after),
        key=lambda c: after[c] - before[c],
    )
    return tuple(known[:count]) if len(known) > count else ()


def _busy() -> dict[int, int]:
    """Ticks that each core has worked since the machine started."""
    found = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
            name, *columns = line.split()
            if name.startswith("cpu") and name[3:].isdecimal():
                ticks = [int(column) for column in columns]
                found[int(name[3:])] = sum(ticks[:8]) - sum(ticks[each] for each in IDLE)
    return found


def pin(pid: int, cores: tuple[int, ...]) -> None:
    """Let every thread of the process run on ``cores`` alone.

    Nothing happens if there are no cores, or if the process is gone.
    """
    if not cores or not hasattr(os, "sched_setaffinity"):
        return
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
