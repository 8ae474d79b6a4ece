"""A measured server without a process: it logs its blocks, and their times are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gradmatrix.measure.servers import Exhausted

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 2**20


@dataclass
class SimulatedServer:
    """A server that logs each block and gives simulated times."""

    number: int
    log: list[int]
    step_s: float = 0.01
    steps_left: int = 10**9
    """Steps of each process before the script ends."""
    error: Exception | None = None
    """Raised by its script in the second block."""
    errors: int = 10**9
    """How often it is raised."""
    fork: bool = True
    cores: tuple[int, ...] = (1,)
    steady: bool = True
    peak_bytes: int | None = 100 * MIB
    lead_in: int = 1
    running: bool = False
    begun: int = 0
    learned: list[bytes] = field(default_factory=list)
    learning: Callable[[], None] | None = None
    """Called when it learns."""
    scouts: int = 0
    opened: int = 0
    renewed: int = 0
    alive: bool = True
    """Whether its server was started before the measurement."""
    _left: int = 10**9

    def open(self) -> None:
        """Start the server."""
        self.opened += 1
        self.alive = True

    def renew(self) -> None:
        """End the server."""
        self.end()
        self.renewed += 1
        self.alive = False

    def scout(self, _request: object) -> bytes:
        """Return what the script imported."""
        self.scouts += 1
        return b"what %d imported" % self.number

    def learn(self, line: bytes) -> None:
        """Import what another server's script imported."""
        self.learned.append(line)
        if self.learning is not None:
            self.learning()

    def begin(self, _request: object) -> None:
        """Start a new process."""
        self.running, self._left = True, self.steps_left
        self.begun += 1

    def block(self, steps: int) -> tuple[float, ...]:
        """The times of a block, with random noise of 0.1 %."""
        if self.error is not None and self.number in self.log and self.errors:
            self.errors -= 1
            raise self.error
        self._left -= steps
        if self._left < 0:
            self.running = False
            raise Exhausted("it has no more steps")
        self.log.append(self.number)
        generator = np.random.default_rng(len(self.log))
        return tuple(self.step_s * np.exp(generator.normal(0, 0.001, steps)))

    def end(self) -> None:
        """Stop the script."""
        self.running = False

    def close(self) -> None:
        """Stop everything."""
        self.end()
