"""A fixed piece of work whose time says how fast the machine is just now.

It runs between timed cells, in the process of the host, on the machine of the cells. It is the same
for every stack. So a slow hour of the machine can be told from a slow stack.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import sys
import time
from functools import cache

from gradmatrix.run import meaning
from gradmatrix.run.plan import PACKAGE

SAMPLES = 5
"""How often it runs each time. One takes about 2 ms, a timed cell 0.3 s on average: 3 %."""
DIGITS = 7
"""Decimals of the seconds that are kept."""
now = time.perf_counter if os.name == "nt" else time.thread_time
"""The clock. On Windows the time of a thread is too coarse."""


class Work:
    """The work. A change of it makes another program, whose times are not compared with older ones.

    Half of it makes and reads many small objects, as the libraries do in each step. Half of it
    copies memory that does not fit into the core's own cache.
    """

    def __init__(self) -> None:
        self.facts = [{"number": number, "half": number / 2, "text": "x"} for number in range(700)]
        self.block, self.copy = bytearray(1 << 21), memoryview(bytearray(1 << 21))

    def once(self) -> None:
        """Do it."""
        json.loads(json.dumps(self.facts))
        for _ in range(14):
            self.copy[:] = self.block


@cache
def program() -> str:
    """Return the identity of the work: what it means, and the Python that does it."""
    means = meaning.digest("gradmatrix", PACKAGE, (("run.reference", "Work"),))
    return hashlib.sha256(f"{means} {sys.version}".encode()).hexdigest()[:16]


@cache
def sampler() -> Work:
    """Return the work of this process: making it takes longer than doing it."""
    return Work()


def sample() -> tuple[float, ...]:
    """Do the work a few times, and return the seconds of each.

    Time in which another process has the core does not count.
    """
    work, collecting = sampler(), gc.isenabled()
    gc.disable()
    try:
        return tuple(round(_once_s(work), DIGITS) for _ in range(SAMPLES))
    finally:
        if collecting:
            gc.enable()


def _once_s(work: Work) -> float:
    began = now()
    work.once()
    return now() - began
