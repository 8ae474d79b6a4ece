"""One server of one side of a comparison, and the script that it has forked to be measured."""

from __future__ import annotations

import random
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness import statistics
from harness.cores import pin
from harness.launch import CAN_FORK, IMPORT_TIMEOUT_S, Server, ServerDied
from harness.pace import IMPORTED, Broken, PacedCell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.launch import Request
    from harness.pool import Source

LEAD_IN = 1
"""Steps at the beginning of a block that do not count: the caches hold another process's data."""
WARMUP_BLOCK = 4
WARMUP_S = 5.0
"""Longest warm-up of one process; what is not steady then is measured, and said."""
SEEDS = random.SystemRandom()
TRIES = 5
"""Of a block. Where another process takes the core between the two readings that make a clock, it is off by as long."""


@dataclass(frozen=True)
class Contender:
    """One side: an interpreter, and environment variables of its own."""

    python: Path
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Runner:
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
        if self.fork and server.cuda_initialized:  # importing opened CUDA, which no fork can use then
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
