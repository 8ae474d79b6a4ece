"""The step clock: when each optimizer step ended, and how long others had the core meanwhile."""

from __future__ import annotations

import os
import time
from collections import deque
from itertools import islice
from typing import Deque, List, Optional, Tuple

SIZE = 128
"""Bytes to read from /proc/self/schedstat, which holds three numbers."""
DIGITS = 7
"""Decimals of seconds in which a wait is kept."""
QUICK_S = 1e-3
"""A step this short waited for no core, which another process keeps for longer. To ask about it
would make such steps several percent longer."""
Moment = Tuple[float, float, float]
"""Seconds: wall time, this thread's time in the run queue, processor time of the other threads."""


def elapsed_s(before: Moment, after: Moment) -> float:
    """Seconds in which this process ran, or waited for anything but a processor core."""
    return after[0] - before[0] - waited_s(before, after)


def waited_s(before: Moment, after: Moment) -> float:
    """Seconds in which this process waited for a core that another process had.

    While a thread waits in the run queue, something else has its core. If that is another thread of
    this process, the time does not count here: the step would be shorter without that thread.
    """
    _, waited, others = (end - begin for begin, end in zip(before, after))
    return round(max(0.0, waited - others), DIGITS)


class Clock:
    """Ticks after each step. Only Linux counts the time in the run queue.

    Args:
        most: it keeps at most so many of the last steps; None for all.
    """

    def __init__(self, most: Optional[int] = None) -> None:
        self.ticks: Deque[Moment] = deque(maxlen=None if most is None else most + 1)
        try:
            self.file = os.open("/proc/self/schedstat", os.O_RDONLY)
        except OSError:
            self.file = -1

    def now(self) -> Moment:
        """This moment."""
        now = time.perf_counter()
        try:
            waited = int(os.pread(self.file, SIZE, 0).split()[1]) * 1e-9
        # Another system, a kernel that does not count it, or a script that closed the file.
        except (OSError, IndexError, ValueError, AttributeError):
            return now, 0.0, 0.0
        return now, waited, time.process_time() - time.thread_time()

    def begin(self) -> None:
        """Forget all steps; another first one begins."""
        self.ticks.clear()
        self.ticks.append(self.now())

    def tick(self) -> None:
        """A step has ended, or the first one begins."""
        now = time.perf_counter()
        quick = bool(self.ticks) and now - self.ticks[-1][0] < QUICK_S
        self.ticks.append((now, *self.ticks[-1][1:]) if quick else self.now())

    @property
    def steps(self) -> List[Tuple[Moment, Moment]]:
        """When each step began and ended."""
        return list(zip(self.ticks, islice(self.ticks, 1, None)))
