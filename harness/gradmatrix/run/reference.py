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
"""How often it runs each time. One takes about 2 ms, a timed cell 0.3 s on average: 4 %, with the
one that is not counted."""
DIGITS = 7
"""Decimals of the seconds that are kept."""
now = time.perf_counter if os.name == "nt" else time.thread_time
"""The clock. On Windows the time of a thread is too coarse."""


class Node:
    """A product of two nodes, which remembers them, as training libraries do for the backward."""

    def __init__(self, value: float, factors: tuple[Node, ...] = ()) -> None:
        self.value, self.factors, self.gradient = value, factors, 0.0

    def times(self, other: Node) -> Node:
        """Return the product."""
        return Node(self.value * other.value % 3, (self, other))


class Work:
    """The work. A change of it makes another program, whose times are not compared with older ones.

    A part of it makes and reads many small objects. The other part builds a graph of products in
    plain Python, and goes through it backwards. On processors that share a core with others, such
    work slows down as training steps do; copies of memory do not.
    """

    def __init__(self) -> None:
        self.facts = [{"number": number, "half": number / 2, "text": "x"} for number in range(700)]

    def once(self) -> None:
        """Do it."""
        json.loads(json.dumps(self.facts))
        nodes = [Node(1.1)]
        for number in range(1500):
            nodes.append(nodes[-1].times(nodes[number // 2]))
        for node in reversed(nodes):
            for factor in node.factors:
                factor.gradient += node.gradient * 0.5


@cache
def program() -> str:
    """Return the identity of the work: what it means, and the Python that does it."""
    means = meaning.digest("gradmatrix", PACKAGE, (("run.reference", "sample"),))
    return hashlib.sha256(f"{means} {sys.version}".encode()).hexdigest()[:16]


@cache
def sampler() -> Work:
    """Return the work of this process: making it takes longer than doing it."""
    return Work()


def sample() -> tuple[float, ...]:
    """Do the work a few times, and return the seconds of each.

    The first time is not counted: this process has slept while the cell ran. Nor is time in which
    another process has the core.
    """
    work, collecting = sampler(), gc.isenabled()
    gc.disable()
    try:
        work.once()
        return tuple(round(_once_s(work), DIGITS) for _ in range(SAMPLES))
    finally:
        if collecting:
            gc.enable()


def _once_s(work: Work) -> float:
    began = now()
    work.once()
    return now() - began
