"""Processor cores: which one is quiet, and who runs where (Linux; elsewhere the system decides)."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

SAMPLE_S = 0.2
IDLE = (3, 4)
"""Columns of /proc/stat that count time in which a core did nothing: idle, and waiting for a disk."""


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
    known = sorted((core for core in usable if core in before and core in after), key=lambda c: after[c] - before[c])
    return tuple(known[:count]) if len(known) > count else ()


def pin(pid: int, cores: tuple[int, ...]) -> None:
    """Let every thread of the process run on ``cores`` alone; nothing where there are none, or it is gone."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        return
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)


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
