"""``python survivor.py PID FOLDER``: end a traced script if ``gradmatrix trace`` was killed.

The trace holds the other end of this process's standard input. Its end means that the trace was
killed, because a trace that ends kills this process first. Then the script and all that it started
get a request to end, and what is left is killed. It runs in a session of its own, so that a signal
to the trace and all it started does not reach it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

PATIENCE_S = 5.0
"""Time for the script to end by itself, for example to write a checkpoint."""


def parents() -> dict[int, int]:
    """The parent of each process. Only Linux tells it."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            told = (process / "stat").read_text(encoding="utf-8", errors="replace")
            state, parent = told.rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(process.name)] = int(parent)
    return found


def below(pid: int) -> list[int]:
    """The process ``pid`` and all that it started."""
    parent_of = parents()
    found = [pid]
    for process in found:  # it grows
        found += [child for child, parent in parent_of.items() if parent == process]
    return found


def send(pid: int, number: int) -> bool:
    """Send a signal; False if the process has ended."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def main(pid: int, folder: str) -> None:
    """Wait for the end of the trace, and end what it left."""
    while os.read(0, 1):
        pass
    processes = below(pid)
    send(pid, signal.SIGTERM)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and any(each in parents() for each in processes):
        time.sleep(0.1)
    for each in processes:
        send(each, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
