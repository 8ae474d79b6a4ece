"""A cell that runs a block of optimizer steps at a time, whenever it is told to; between blocks it costs nothing.

Processor cores: which one is quiet, and who runs where (Linux; elsewhere the system decides).

One server of one side of a comparison, and the script that it has forked to be measured.

The servers of both sides of a comparison, which live at once and are told what to do together.
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

from gradmatrix.core.files import tail
from gradmatrix.judge.verdict import Ended, judge
from gradmatrix.measure import statistics
from gradmatrix.run import scenarios
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
from gradmatrix.stacks import environment

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
"""Longest warm-up of one process; what is not steady then is measured, and said."""
TRIES = 5
"""Of a block. Where another process takes the core between the two readings that make a clock, it is off by as long."""
START_TIMEOUT_S = 60.0
SAMPLE_S = 0.2
IDLE = (3, 4)
"""Columns of /proc/stat that count time in which a core did nothing: idle, and waiting for a disk."""
SEEDS = random.SystemRandom()
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Contender:
    """One side: an interpreter, and environment variables of its own."""

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
    """Runners of both sides, the baseline's first; ended with the context."""
    threads = settings.limits.threads
    cores = quietest(threads)
    members = [
        MeasuredServer(
            contender,
            directory / f"{side}-{number}",
            sources,
            environment.variables(threads),
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
    """It starts them. Its threads live as long as they do: Linux kills a server with the thread that started it."""
    opening_s: float = math.inf
    """What starting all servers took when they were last started together."""

    def open(self) -> None:
        """Start all servers. ServerDied, OSError.

        The first one of an environment compiles what it imports, and keeps up to 8 % more memory for it: one of each
        side is started for that alone.
        """
        half = len(self.members) // 2
        self.each(
            lambda server: server.rehearse(), [*self.members[:half][:1], *self.members[half:][:1]]
        )
        self.renew()

    def renew(self) -> None:
        """Others take the place of the servers, and import what these have learned to. ServerDied, OSError."""
        self.each(lambda server: server.renew(), self.members)
        began = time.monotonic()
        self.each(lambda server: server.open(), self.members)
        self.opening_s = time.monotonic() - began

    def each(self, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Do ``task`` with all ``items``, as many at a time as there are cores; raises when no other one is at work."""
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
    """A server of ``contender`` that runs a block of optimizer steps when it is told to."""

    contender: Contender
    directory: Path
    sources: Sequence[Source]
    variables: Mapping[str, str]
    cores: tuple[int, ...]
    """Where the script runs once it is warm; empty: anywhere."""
    fork: bool = CAN_FORK
    """One server for all processes, which imports once; else a server for each."""
    peak_bytes: int | None = None
    """Peak memory of the script so far."""
    steady: bool = False
    """Its warm-up was seen to end."""
    step_s: float = 0.0
    """What a step took at the end of the warm-up."""
    seed: int = field(default_factory=lambda: SEEDS.randrange(1, 2**32))
    """Of its server's hashes."""
    lead_in: int = LEAD_IN
    _cell: PacedCell | None = None
    _server: Server | None = None
    _servers: int = 0
    _cells: int = 0
    _learned: list[bytes] = field(default_factory=list)

    def open(self) -> None:
        """Start the server unless it lives: it imports what is measured, and what was learned. ServerDied, OSError."""
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
        if (
            self.fork and server.cuda_initialized
        ):  # importing opened CUDA, which no fork can use then
            self.fork = False
            self._shut()
            self.open()
        for line in self._learned:
            self._import(line)

    def renew(self) -> None:
        """End the server: the next one has another hash seed."""
        self.close()
        self.seed = SEEDS.randrange(1, 2**32)

    @property
    def alive(self) -> bool:
        """Whether its server lives."""
        return self._server is not None and self._server.alive

    def rehearse(self) -> None:
        """Start a server, and end it: what it imports is compiled then. ServerDied, OSError."""
        self.open()
        self._shut()

    def scout(self, request: Callable[[Path], Request]) -> bytes:
        """Run the first step; what the script then had imported, as a line for :meth:`learn`.

        Exhausted, Broken, ServerDied.
        """
        line = self._started(request).imported
        self.end()
        return line

    def learn(self, line: bytes) -> None:
        """Import what the scout's script had to, and so does every server that takes its place. Broken, ServerDied."""
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
        """Start the script, run it until its step times are steady, and pin it. Exhausted, Broken, ServerDied."""
        cell = self._started(request)
        self.warm_up()
        if cell.pid is not None:
            pin(cell.pid, self.cores)

    def _started(self, request: Callable[[Path], Request]) -> PacedCell:
        """The script in a new process, after its first step; one that failed to start is ended before."""
        self.end()
        self.open()
        assert self._server is not None
        self._cells += 1
        self._cell = PacedCell(self._server, request(self.directory / f"cell-{self._cells}"))
        self._cell.start()
        return self._cell

    def warm_up(self) -> None:
        """Run until the marginal standard error says that what came first was different, and is over."""
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
        """Whether the script has not ended."""
        return self._cell is not None and self._cell.pid is not None

    def block(self, steps: int) -> tuple[float, ...]:
        """Run a block, again where its clock ran backwards: the seconds of each step but the lead-in.

        Exhausted, Broken, ServerDied.
        """
        assert self._cell is not None
        for _ in range(TRIES):
            block = self._cell.run(self.lead_in + steps)
            self.peak_bytes = block.peak_memory_bytes
            if all(step_s > 0 for step_s in block.step_times_s):
                return block.step_times_s[self.lead_in :]
        raise Broken(f"its clock ran backwards in each of {TRIES} blocks")

    def end(self) -> None:
        """Stop the script and remove its folder; the server stays, where it can."""
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
        """Stop everything."""
        self.end()
        self._shut()

    def _shut(self) -> None:
        """End the server; what needs one starts another."""
        server, self._server = self._server, None
        if server is not None:
            server.close()


class Exhausted(Exception):
    """The script ran to its end: it has no more steps. Another process may go on."""


class Broken(Exception):
    """The script failed, died, or took too long; the message says which."""


class Block(msgspec.Struct, frozen=True, tag_field="event", tag="block"):
    """What a block of steps took."""

    step_times_s: tuple[float, ...]
    """Of each step; the first one begins with cold caches."""
    peak_memory_bytes: int | None
    """Of the process since it began: resident set, or what torch's allocator held on a GPU."""


class Imported(msgspec.Struct, frozen=True, tag_field="event", tag="imported"):
    """The server has imported what it was told to."""


class _Imports(msgspec.Struct):
    """What a cell had to import by itself, in the words of ``protocol.py``."""

    schema: int
    modules: list[str]


IMPORTED, _IMPORTS = msgspec.json.Decoder(Imported), msgspec.json.Decoder(_Imports)
_EVENT: msgspec.json.Decoder[Block | CellEnded] = msgspec.json.Decoder(Block | CellEnded)


class PacedCell:
    """One running script in ``server``; it waits after its first optimizer step."""

    def __init__(self, server: Server, request: Request) -> None:
        self.server = server
        self.request = request
        self.pid: int | None = None
        self.unheard = False
        """It broke after it was told to run: what it may not have read, the server takes for a request."""

    def start(self) -> Block:
        """Start the script and let it run to the end of its first step. Exhausted, Broken, ServerDied."""
        self.request.directory.mkdir(parents=True, exist_ok=True)
        self.server.send(self.request.line())
        started = self.server.event(STARTED, time.monotonic() + START_TIMEOUT_S)
        if started is None:
            self.server.close()  # it would begin some time, and nobody would wait for it
            raise Broken("its process did not start in time")
        self.pid = started.pid
        return self._block()

    @property
    def imported(self) -> bytes:
        """The line that asks another server to import what this cell had to import by itself."""
        return msgspec.json.encode(
            _IMPORTS.decode((self.request.directory / "imported.json").read_bytes())
        )

    def run(self, steps: int) -> Block:
        """Run ``steps`` optimizer steps. Exhausted, Broken, ServerDied."""
        self.server.send(f'{{"steps": {steps}}}\n')
        try:
            return self._block()
        except Broken:
            self.unheard = True
            raise

    def stop(self) -> None:
        """End the script; the server is ready for another one, where it can fork. Broken, ServerDied: it is not."""
        if self.pid is None:
            return
        kill_group(self.pid)
        self.pid = None
        if self.server.fork:
            while isinstance(self._event(START_TIMEOUT_S), Block):
                pass  # it was on its way

    def _block(self) -> Block:
        """The next block."""
        event = self._event(self.request.timeout_s)
        if isinstance(event, Block):
            return event
        kill_group(event.pid)  # what the script left running
        self.pid = None
        raise self._end(event)

    def _event(self, timeout_s: float) -> Block | CellEnded:
        """What the script does next."""
        line = self.server.line(time.monotonic() + timeout_s, self.request.directory / "output.txt")
        if line is None:
            raise Broken(f"no answer within {timeout_s:g} s")
        try:
            return _EVENT.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Broken(f"it does not keep the protocol: {error}") from error

    def _end(self, event: CellEnded) -> Exhausted | Broken:
        """Why a script ended that nobody had stopped."""
        seen = read_observation(self.request.directory)
        if seen is not None and seen.raised is None and seen.skipped is None and not seen.no_device:
            return Exhausted(f"it has no more than {seen.steps} steps")
        ended = Ended(
            event.signal, event.exit, output_tail=tail(self.request.directory / "output.txt")
        )
        return Broken(scenarios.without_folders(judge(seen, ended).message, self.request.folders))


def quietest(count: int) -> tuple[int, ...]:
    """The ``count`` least busy cores that this process may use; empty where there are no more, or none to see.

    Of two cores that share their circuits the busier one slows the other, which no choice here can mend.
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
    """Ticks that each core has worked since the machine was started."""
    found = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
            name, *columns = line.split()
            if name.startswith("cpu") and name[3:].isdecimal():
                ticks = [int(column) for column in columns]
                found[int(name[3:])] = sum(ticks[:8]) - sum(ticks[each] for each in IDLE)
    return found


def pin(pid: int, cores: tuple[int, ...]) -> None:
    """Let every thread of the process run on ``cores`` alone; nothing where there are none, or it is gone."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        return
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
