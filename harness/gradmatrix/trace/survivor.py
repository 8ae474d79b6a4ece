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
STATE, PARENT, STARTED = 0, 1, 19
"""Places of these facts in ``/proc/PID/stat``, after the name of the process."""


def running() -> dict[int, tuple[int, str]]:
    """The parent and the start of each process. Only Linux tells them."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            told = (process / "stat").read_text(encoding="utf-8", errors="replace")
            facts = told.rpartition(")")[2].split()
            if facts[STATE] != "Z":
                found[int(process.name)] = int(facts[PARENT]), facts[STARTED]
    return found


def below(pid: int, known: dict[int, tuple[int, str]]) -> list[int]:
    """The process ``pid`` and all that it started."""
    found = [pid]
    for process in found:  # it grows
        found += [child for child, (parent, _) in known.items() if parent == process]
    return found


def lives(pid: int, known: dict[int, tuple[int, str]]) -> bool:
    """Whether a process still runs. Another one may have got its number since."""
    if pid not in known:
        return send(pid, 0)
    now = running().get(pid)
    return now is not None and now[1] == known[pid][1]


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
    known = running()
    processes = below(pid, known)
    send(pid, signal.SIGTERM)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and any(lives(each, known) for each in processes):
        time.sleep(0.1)
    for each in processes:
        if lives(each, known):
            send(each, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
