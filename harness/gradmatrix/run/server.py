"""The server inside the tested environment, seen from the host.

It is started, runs one cell at a time, and is ended if it does not answer in time. The messages are
described in ``observe/protocol.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Self, TypeVar

import msgspec

from gradmatrix.core.files import NOT_READABLE, cut_back, tail
from gradmatrix.core.observation import SCHEMA, Observation, Raised
from gradmatrix.judge.verdict import Ended
from gradmatrix.stacks import sandbox

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVER = Path(__file__).resolve().parent.parent / "observe" / "server.py"
CAN_FORK = sys.platform == "linux"
"""Elsewhere a fork after importing torch is not safe (macOS) or does not exist (Windows)."""
POLL_S = 0.5
IMPORT_TIMEOUT_S = 600.0
START_TIMEOUT_S = 60.0
KILL_TIMEOUT_S = 30.0
"""The time in which the server must report the end of a cell that was killed."""
GRACE_S = 10.0
"""The time that a server has to end after it has closed its end of the pipe."""


ProcessId = Annotated[int, msgspec.Meta(gt=1)]
"""A process that may be killed: 0 and 1 would mean this process's own group, or every process."""


class _Ready(msgspec.Struct, tag_field="event", tag="ready"):
    """The server has imported its scripts."""

    import_s: float
    imports: dict[str, Raised | None]
    threads: int
    cuda_initialized: bool = False


class Started(msgspec.Struct, tag_field="event", tag="started"):
    """The process of a cell has started."""

    pid: ProcessId


class CellEnded(msgspec.Struct, tag_field="event", tag="ended"):
    """The process of a cell has ended."""

    pid: ProcessId
    signal: int | None
    exit: int | None
    import_s: float = 0.0
    threads: int = 1
    cuda_initialized: bool = False


Event = TypeVar("Event")
# Made on import: msgspec crashes if several threads make the first decoder of a type together.
READY = msgspec.json.Decoder(_Ready)
STARTED = msgspec.json.Decoder(Started)
ENDED = msgspec.json.Decoder(CellEnded)
OBSERVATION = msgspec.json.Decoder(Observation)


class ServerDied(Exception):
    """The server ended before it answered, or does not keep to the protocol."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(f"the server ended: {ended}")
        self.ended = ended


@dataclass(frozen=True)
class Request:
    """One cell to run: a script's variant on a device, with its limits."""

    script: Path
    variant: str
    device: str
    audit: int
    warmup: int
    timed: int
    directory: Path
    timeout_s: float
    memory_bytes: int | None
    observe: bool = True
    arguments: tuple[str, ...] | None = None
    """The arguments of a user's own script; None for a scenario."""
    working_directory: Path | None = None
    paced: bool = False
    """Whether the cell waits for a message before each block of steps."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the script, of its files, and in which it runs."""
        return self.script.parent, self.directory, self.working_directory or self.directory

    def line(self) -> str:
        """The request in the format of the protocol."""
        message = {
            "schema": SCHEMA,
            "script": str(self.script),
            "variant": self.variant,
            "device": self.device,
            "audit": self.audit,
            "warmup": self.warmup,
            "timed": self.timed,
            "directory": str(self.directory),
            "memory_bytes": self.memory_bytes,
            "observe": self.observe,
            "arguments": self.arguments,
            "working_directory": None
            if self.working_directory is None
            else str(self.working_directory),
            "paced": self.paced,
        }
        return json.dumps(message) + "\n"


@dataclass(frozen=True)
class Answer:
    """What a cell left: its observation, if there is one, and how its process ended."""

    observation: Observation | None
    ended: Ended
    wall_s: float
    """Seconds from the request to the end of the cell's process."""
    import_s: float = 0.0
    """Seconds in which the server then imported what this cell had to import by itself."""


@dataclass
class Server:
    """A running server of one environment; a context manager."""

    python: Path
    scripts: Sequence[Path]
    directory: Path
    variables: Mapping[str, str]
    fork: bool = CAN_FORK
    ahead: Sequence[Path] = ()
    """Users' own scripts, whose libraries are imported."""
    import_s: float = field(default=0.0, init=False)
    imports: dict[str, Raised | None] = field(default_factory=dict, init=False)
    threads: int = field(default=1, init=False)
    """Threads of the server's process. With more than one, a fork may wait forever for a lock."""
    cuda_initialized: bool = field(default=False, init=False)
    """Whether a library opened CUDA in the server; then its forks cannot use CUDA."""
    _cell: int | None = field(default=None, init=False)
    """The process of the running cell, which leads a group of its own."""
    _closed: bool = field(default=False, init=False)

    def __enter__(self) -> Self:
        self._start()
        try:
            ready = self.event(READY, time.monotonic() + IMPORT_TIMEOUT_S)
        except BaseException:
            self.close()
            raise
        if ready is None:
            self.close()
            raise ServerDied(Ended(timed_out=True, output_tail=tail(self.log)))
        self.import_s, self.imports = ready.import_s, ready.imports
        self.threads, self.cuda_initialized = ready.threads, ready.cuda_initialized
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _start(self) -> None:
        """Start the process and the thread that reads its events."""
        self.directory.mkdir(parents=True, exist_ok=True)
        start, self.log = self.directory / "start.json", self.directory / "server.txt"
        message = {
            "schema": SCHEMA,
            "scripts": [str(path) for path in self.scripts],
            "ahead": [str(path) for path in self.ahead],
            "fork": self.fork,
            "log": str(self.log),
        }
        start.write_text(json.dumps(message), encoding="utf-8")
        self._process = subprocess.Popen(
            sandbox.alone([str(self.python), str(SERVER), str(start)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self.directory,
            env={**self.variables, **sandbox.home(self.directory / "home")},
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=read_lines, args=(self._process.stdout, self._lines), daemon=True
        )
        self._reader.start()

    def run(self, request: Request) -> Answer:
        """Run one cell. This returns at its time limit, whatever the cell does."""
        output = request.directory / "output.txt"
        began = time.monotonic()
        ended, import_s = self._run(request, output)
        wall_s = time.monotonic() - began - import_s
        ended = replace(ended, output_tail=tail(output))
        return Answer(read_observation(request.directory), ended, wall_s, import_s)

    def _run(self, request: Request, output: Path) -> tuple[Ended, float]:
        """How the process of a cell ended, and the seconds that the server imported after that.

        The server is closed if it does not report the end.
        """
        timed_out = False
        try:
            event = self._finish(request, output)
            if event is None and self._cell is not None:
                timed_out = True
                event = self._kill_cell()
        except (ServerDied, OSError) as error:
            self.close()
            if isinstance(error, ServerDied) and not self.fork:  # the server was the cell itself
                return replace(error.ended, timed_out=timed_out), 0.0
            return Ended(timed_out=timed_out, lost=not timed_out), 0.0
        if event is None:
            self.close()
            return Ended(timed_out=timed_out, lost=not timed_out), 0.0
        self._cell = None
        self.threads, self.cuda_initialized = event.threads, event.cuda_initialized
        if not self.fork:
            self.close()  # it runs one cell only; this ends what the script left running
        return Ended(event.signal, event.exit, timed_out=timed_out), event.import_s

    def _finish(self, request: Request, output: Path) -> CellEnded | None:
        """Start a cell and wait for its end; None if it does not start or end in time."""
        request.directory.mkdir(parents=True)
        began = time.monotonic()
        self.send(request.line())
        started = self.event(STARTED, began + START_TIMEOUT_S)
        if started is None:
            return None
        self._cell = started.pid
        return self.event(ENDED, began + request.timeout_s, watch=output)

    def _kill_cell(self) -> CellEnded | None:
        """Kill the running cell; return the server's report of its end, or None without one."""
        assert self._cell is not None
        kill_group(self._cell)
        return self.event(ENDED, time.monotonic() + KILL_TIMEOUT_S)

    @property
    def alive(self) -> bool:
        """Whether the server can run another cell."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the server and everything it started.

        Only the first call does anything: after it, another process may have the same id.
        """
        if self._closed:
            return
        self._closed = True
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if not self.fork:
                self._process.wait(timeout=1)
        if self._cell is not None:
            kill_group(self._cell)
        kill_group(self._process.pid)
        self._process.wait()
        # a process that the script started may keep the pipe open: the reader ends with it
        self._reader.join(timeout=1)

    def send(self, line: str) -> None:
        """Send a line to the server, or to the running cell, which reads in its place."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()

    def event(
        self, kind: msgspec.json.Decoder[Event], deadline: float, watch: Path | None = None
    ) -> Event | None:
        """Wait for the server's next event.

        Args:
            kind: Decodes the expected event.
            deadline: By the monotonic clock, in seconds.
            watch: A file of output, which is cut back while it grows too long.

        Returns:
            The event; None at the deadline.

        Raises:
            ServerDied: if the server has ended, or sends something else.
        """
        line = self.line(deadline, watch)
        try:
            return None if line is None else kind.decode(line)
        except NOT_READABLE as error:
            raise ServerDied(Ended(lost=True, output_tail=tail(self.log))) from error

    def line(self, deadline: float, watch: Path | None = None) -> bytes | None:
        """The next line of the server; None if there is none before the deadline."""
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            with contextlib.suppress(queue.Empty):
                line = self._lines.get(timeout=min(left_s, POLL_S))
                break
            if not left_s:
                return None
            if watch is not None:
                cut_back(watch)
        if watch is not None:
            cut_back(watch)
        if not line:
            self._lines.put(line)  # the next call finds the end too
            raise ServerDied(self._ended())
        return line

    def _ended(self) -> Ended:
        """How the server ended; it is killed if it does not end soon after closing the pipe."""
        try:
            code = self._process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            kill_group(self._process.pid)
            code = self._process.wait()
        return Ended(
            -code if code < 0 else None, code if code >= 0 else None, output_tail=tail(self.log)
        )


def read_lines(stream: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Put every line of ``stream`` into ``lines``, then an empty one, and close the stream.

    It runs in a thread, because Windows cannot poll a pipe.
    """
    with contextlib.suppress(OSError, ValueError), stream:
        for line in stream:
            lines.put(line)
    lines.put(b"")


def read_observation(directory: Path) -> Observation | None:
    """The observation that a cell left in ``directory``; None if there is none that can be read."""
    try:
        return OBSERVATION.decode((directory / "observation.json").read_bytes())
    except (OSError, *NOT_READABLE):
        return None


def kill_group(pid: int) -> None:
    """Kill a process and the group it leads."""
    if not hasattr(os, "killpg"):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
