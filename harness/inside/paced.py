"""Run a script a block of optimizer steps at a time: between two blocks it waits, and costs nothing.

Two stacks can then be measured in turns on one processor core. The host writes lines to the server's standard input,
which the running cell reads, and gets an event per block. Where another process had the core although this one could
have used it, the clock stands still: Linux tells for how long that was.
"""

from __future__ import annotations

import json
import os
import time
from typing import IO, Any, Callable, Dict, List

from . import machine
from .observer import Enough, Observer

SIZE = 128
"""Bytes of what Linux tells: three numbers."""


class Pacer:
    """The step clock of one cell; it is told after every optimizer step and returns when the next may begin."""

    def __init__(
        self, observer: Observer, events: IO[str], commands: int, device: str, begun: Callable[[], None]
    ) -> None:
        self.observer = observer
        self.events = events
        self.device = device
        self.begun = begun
        """Called after the first step."""
        self.commands = commands
        """Descriptor of the host's pipe."""
        self.clock = Clock()
        self.left = 1  # the first step ends the setting up; then the host speaks
        self.ticks: List[float] = []
        observer.stepped = self.stepped

    def stepped(self) -> None:
        """After each step: a clock reading, and at the end of a block the host's turn."""
        self.left -= 1
        if self.left and self.device == "cpu":
            self.ticks.append(self.clock.now())
            return
        self.observer.synchronize()
        self.ticks.append(self.clock.now())
        if not self.left:
            self.end_block()

    def end_block(self) -> None:
        """Tell what the block took, and wait for the next one; raises Enough where there is none."""
        if self.observer.steps == 1:
            self.begun()
        times = [after - before for before, after in zip(self.ticks, self.ticks[1:])]
        peak = machine.peak_memory_bytes() if self.device == "cpu" else machine.peak_cuda_memory_bytes()
        self.events.write(json.dumps({"event": "block", "step_times_s": times, "peak_memory_bytes": peak}) + "\n")
        self.events.flush()
        command = self.next_command()
        if command["steps"] < 1:
            raise Enough
        self.left = command["steps"]
        self.ticks = [self.clock.now()]

    def next_command(self) -> Dict[str, Any]:
        """The host's next line; {"steps": 0} where it is gone."""
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self.commands, 1)  # not one more: what follows the cell's last command is the server's
            if not byte:
                return {"steps": 0}
            line += byte
        command: Dict[str, Any] = json.loads(line)
        return command


class Clock:
    """Seconds in which this process ran, or waited for anything but a core that another process had."""

    def __init__(self) -> None:
        try:
            self.file = os.open("/proc/self/schedstat", os.O_RDONLY)
            os.pread(self.file, SIZE, 0).split()[1]
        except (OSError, IndexError, AttributeError):  # another system, or a kernel that does not count it
            self.file = -1

    def now(self) -> float:
        """A reading: wall time less the time in the run queue."""
        now = time.perf_counter()
        if self.file < 0:
            return now
        return now - int(os.pread(self.file, SIZE, 0).split()[1]) * 1e-9
