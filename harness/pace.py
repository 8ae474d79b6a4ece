"""A cell that runs a block of optimizer steps at a time, whenever it is told to; between blocks it costs nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from harness import scripts
from harness.disk import tail
from harness.launch import STARTED, CellEnded, Server, kill_group, read_observation
from harness.verdict import Ended, judge

if TYPE_CHECKING:
    from harness.launch import Request

START_TIMEOUT_S = 60.0


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


class Exhausted(Exception):
    """The script ran to its end: it has no more steps. Another process may go on."""


class Broken(Exception):
    """The script failed, died, or took too long; the message says which."""


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
        return msgspec.json.encode(_IMPORTS.decode((self.request.directory / "imported.json").read_bytes()))

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
        ended = Ended(event.signal, event.exit, output_tail=tail(self.request.directory / "output.txt"))
        return Broken(scripts.without_folders(judge(seen, ended).message, self.request.folders))
