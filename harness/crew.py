"""The servers of both sides of a comparison, which live at once and are told what to do together."""

from __future__ import annotations

import contextlib
import math
import os
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from harness import environment
from harness.cores import quietest
from harness.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from harness.pool import Settings, Source
    from harness.runner import Contender

T = TypeVar("T")
R = TypeVar("R")
SERVERS = 6
"""Fresh servers per side."""


@dataclass
class Crew:
    """The runners of both sides, the baseline's first."""

    runners: list[Runner]
    pool: ThreadPoolExecutor
    """It starts them. Its threads live as long as they do: Linux kills a server with the thread that started it."""
    opening_s: float = math.inf
    """What starting all servers took when they were last started together."""

    def open(self) -> None:
        """Start all servers. ServerDied, OSError.

        The first one of an environment compiles what it imports, and keeps up to 8 % more memory for it: one of each
        side is started for that alone.
        """
        half = len(self.runners) // 2
        self.each(lambda runner: runner.rehearse(), [*self.runners[:half][:1], *self.runners[half:][:1]])
        self.renew()

    def renew(self) -> None:
        """Others take the place of the servers, and import what these have learned to. ServerDied, OSError."""
        self.each(lambda runner: runner.renew(), self.runners)
        began = time.monotonic()
        self.each(lambda runner: runner.open(), self.runners)
        self.opening_s = time.monotonic() - began

    def each(self, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Do ``task`` with all ``items``, as many at a time as there are cores; raises when no other one is at work."""
        futures = [self.pool.submit(task, item) for item in items]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            for future in futures:
                future.cancel()
        wait(futures)
        for future in done:
            future.result()
        return [future.result() for future in futures]


@contextlib.contextmanager
def crew(
    baseline: Contender,
    candidate: Contender,
    sources: Sequence[Source],
    settings: Settings,
    directory: Path,
    *,
    servers: int = SERVERS,
) -> Iterator[Crew]:
    """Runners of both sides, the baseline's first; ended with the context."""
    threads = settings.limits.threads
    cores = quietest(threads)
    runners = [
        Runner(
            contender,
            directory / f"{side}-{number}",
            sources,
            environment.variables(threads),
            cores,
            fork=settings.isolation == "fork",
        )
        for side, contender in (("baseline", baseline), ("candidate", candidate))
        for number in range(servers)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool, contextlib.ExitStack() as ending:
        for runner in runners:
            ending.callback(runner.close)
        yield Crew(runners, pool)
