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
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, TypeVar

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
GRACE_S = 10.0
"""The time that a server has to end after it has closed its end of the pipe."""


class _Ready(msgspec.Struct, tag_field="event", tag="ready"):
    """The server has imported its scripts."""

    import_s: float
    imports: dict[str, Raised | None]
    threads: int
    cuda_initialized: bool = False


class Started(msgspec.Struct, tag_field="event", tag="started"):
    """The process of a cell has started."""

    pid: int


class CellEnded(msgspec.Struct, tag_field="event", tag="ended"):
    """The process of a cell has ended."""

    pid: int
    signal: int | None
    exit: int | None
    import_s: float = 0.0
    threads: int = 1
    cuda_initialized: bool = False


Event = TypeVar("Event")
READY, STARTED, ENDED = (
    msgspec.json.Decoder(_Ready),
    msgspec.json.Decoder(Started),
    msgspec.json.Decoder(CellEnded),
)
OBSERVATION = msgspec.json.Decoder(Observation)
"""Made on import: msgspec crashes if several threads make the first decoder of a type together."""


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

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        start, self.log = self.directory / "start.json", self.directory / "server.txt"
        scripts, ahead = [str(path) for path in self.scripts], [str(path) for path in self.ahead]
        message = {
            "schema": SCHEMA,
            "scripts": scripts,
            "ahead": ahead,
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

    def run(self, request: Request) -> Answer:
        """Run one cell. This returns at its time limit, whatever the cell does."""
        began = time.monotonic()
        output = request.directory / "output.txt"
        timed_out = False
        try:
            request.directory.mkdir(parents=True)
            self.send(request.line())
            started = self.event(STARTED, began + 60)
            self._cell = started.pid if started else None
            event = self.event(ENDED, began + request.timeout_s, watch=output) if started else None
            timed_out = event is None and started is not None
            if timed_out and started:
                kill_group(started.pid)
                event = self.event(ENDED, time.monotonic() + 30)
            if event is None:
                self.close()
                ended = Ended(timed_out=timed_out, lost=not timed_out, output_tail=tail(output))
            else:
                kill_group(event.pid)  # processes that the script left behind
                self._cell = None
                self.threads, self.cuda_initialized = event.threads, event.cuda_initialized
                ended = Ended(
                    event.signal, event.exit, timed_out=timed_out, output_tail=tail(output)
                )
        except (ServerDied, OSError) as error:
            self.close()
            found = (
                error.ended
                if isinstance(error, ServerDied) and not self.fork
                else Ended(lost=not timed_out)
            )
            ended = Ended(
                found.signal,
                found.exit,
                timed_out=timed_out,
                lost=found.lost,
                output_tail=tail(output),
            )
            event = None
        import_s = event.import_s if event else 0.0
        return Answer(
            read_observation(request.directory),
            ended,
            time.monotonic() - began - import_s,
            import_s,
        )

    @property
    def alive(self) -> bool:
        """Whether the server can run another cell."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the server and everything it started."""
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
        """The next line of the server, as ``event`` waits for it."""
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            with contextlib.suppress(queue.Empty):
                line = self._lines.get(timeout=min(left_s, POLL_S))
                break
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
    """The observation that a cell left in ``directory``; None if there is none, or it cannot be read."""
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
