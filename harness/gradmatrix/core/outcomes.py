"""The vocabulary of failure: phase and reason, one stable string that round-trips."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

TRAINS = "trains"


class Phase(StrEnum):
    """Where a cell stopped being one that trains, in the order the phases happen."""

    RESOLVE = "resolve"
    INSTALL = "install"
    IMPORT = "import"
    SETUP = "setup"
    STEP = "step"
    GRADIENT = "gradient"
    UPDATE = "update"
    RELATION = "relation"
    PROCESS = "process"


REASONS: dict[Phase, tuple[str, ...]] = {
    Phase.RESOLVE: ("conflict", "no-release", "index-unreachable"),
    Phase.INSTALL: ("network", "build", "disk-full", "hash-mismatch"),
    Phase.IMPORT: ("missing-module", "exception"),
    Phase.SETUP: ("exception", "unsupported", "no-device"),
    Phase.STEP: ("no-grad-fn", "exception", "nonfinite-loss"),
    Phase.GRADIENT: ("none", "partial", "zero", "nonfinite"),
    Phase.UPDATE: ("none", "partial"),
    Phase.RELATION: ("disagrees",),
    Phase.PROCESS: ("timeout", "out-of-memory", r"signal-\d+", r"exit-\d+", "lost"),
}
SPURIOUS = frozenset(
    {"resolve:index-unreachable", "install:network", "install:disk-full", "process:lost"}
)
NOT_JUDGED = SPURIOUS | {"setup:unsupported", "setup:no-device"}


@dataclass(frozen=True)
class Outcome:
    """The verdict on a cell; ``Outcome(None, "")`` trains."""

    phase: Phase | None
    reason: str

    def __post_init__(self) -> None:
        if self.phase is None:
            if self.reason:
                raise ValueError(f"a training outcome has no reason, got {self.reason!r}")
        elif not any(re.fullmatch(pattern, self.reason) for pattern in REASONS[self.phase]):
            raise ValueError(
                f"{self.reason!r} is no reason of phase {self.phase}: {', '.join(REASONS[self.phase])}"
            )

    def __str__(self) -> str:
        return TRAINS if self.phase is None else f"{self.phase}:{self.reason}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``trains`` or ``phase:reason``; ValueError for anything else."""
        if text == TRAINS:
            return cls(None, "")
        phase, _, reason = text.partition(":")
        return cls(Phase(phase), reason)

    @property
    def trains(self) -> bool:
        """Whether the cell trained."""
        return self.phase is None

    @property
    def spurious(self) -> bool:
        """Whether it speaks of the machine and not of the stack: retried, never a regression."""
        return str(self) in SPURIOUS

    @property
    def judged(self) -> bool:
        """Whether it says anything about the stack at all."""
        return str(self) not in NOT_JUDGED


OF_THE_MACHINE = SPURIOUS | {"setup:no-device"}
"""Outcomes that speak of a machine and not of the stack."""


LIMIT_OF = {"process:timeout": "timeout_s", "process:out-of-memory": "memory_bytes"}
"""Outcomes that a higher limit may change, with the input that holds the limit. Limits are no part of the key."""
