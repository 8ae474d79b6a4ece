"""A runner without a process: which order of blocks it is told to run is known, and so is the time that they take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gradmatrix.measure.servers import Exhausted

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 2**20


@dataclass
class Told:
    """A runner that says what it was told, and gives times that were thought up."""

    number: int
    log: list[int]
    step_s: float = 0.01
    steps_left: int = 10**9
    """Of each process, before the script ends."""
    error: Exception | None = None
    """Raised by its script in the second block."""
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
    """Its server was started before the race."""
    _left: int = 10**9

    def open(self) -> None:
        """The server lives."""
        self.opened += 1
        self.alive = True

    def renew(self) -> None:
        """It ends."""
        self.end()
        self.renewed += 1
        self.alive = False

    def scout(self, _request: object) -> bytes:
        """What it had to import."""
        self.scouts += 1
        return b"what %d imported" % self.number

    def learn(self, line: bytes) -> None:
        """What another one had to."""
        self.learned.append(line)
        if self.learning is not None:
            self.learning()

    def begin(self, _request: object) -> None:
        """A new process."""
        self.running, self._left = True, self.steps_left
        self.begun += 1

    def block(self, steps: int) -> tuple[float, ...]:
        """A block of steps, of which chance makes a thousandth."""
        if self.error is not None and self.number in self.log:
            raise self.error
        self._left -= steps
        if self._left < 0:
            self.running = False
            raise Exhausted("it has no more steps")
        self.log.append(self.number)
        generator = np.random.default_rng(len(self.log))
        return tuple(self.step_s * np.exp(generator.normal(0, 0.001, steps)))

    def end(self) -> None:
        """The script is stopped."""
        self.running = False

    def close(self) -> None:
        """All is."""
        self.end()
