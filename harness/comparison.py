"""The words of a comparison of two sides, as data: schema 1 of what ``compare`` and ``upgrade`` report."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Literal

from harness.drift import Drift
from harness.measured import Measured
from harness.model import Cell, Gradient, Role
from harness.moved import PackageMove
from harness.observation import Frame, Frozen
from harness.standing import Change


class Verdict(StrEnum):
    """The answer to "may I upgrade?"."""

    SAFE = "safe"
    REGRESSIONS = "regressions"
    INCONCLUSIVE = "inconclusive"


EXIT_CODES = {Verdict.SAFE: 0, Verdict.REGRESSIONS: 1, Verdict.INCONCLUSIVE: 3}


class SideFacts(Frozen, frozen=True):
    """One side of a comparison: what its cells were run with."""

    name: str
    python: str
    as_of: dt.date | None
    """The day the package index was read as of; null where the lock is not known."""
    lock: str
    """The first digits of the lock's digest; empty where it is not known."""
    requirements: tuple[str, ...]
    device: tuple[str, ...]
    """The processor architecture or the GPU's name that its cells ran on."""
    build: tuple[str, ...]
    """The build of torch that they ran with."""
    failure: str | None = None
    """Why the side could not be resolved."""


class Pair(Frozen, frozen=True):
    """Two sides and what moved between them."""

    baseline: SideFacts
    candidate: SideFacts
    moved: tuple[PackageMove, ...] | None
    """The packages that differ; null where a lock is not known."""


class Ending(Frozen, frozen=True):
    """How a cell ended on one side."""

    outcome: str
    """``trains`` or ``phase:reason``."""
    passed: bool | None
    """Null where it was not judged."""
    gradient: Gradient | None
    message: str
    repeats: tuple[str, ...] = ()
    """Outcomes of further runs of the same cell on this side."""


class CellChange(Frozen, frozen=True):
    """What became of one cell."""

    cell: Cell
    """Its stack is the candidate's."""
    role: Role
    change: Change
    before: Ending | None
    """Null where the baseline has no record of it."""
    after: Ending | None
    why: str = ""
    """What is to be known of the change: why it is inconclusive, what else than the packages changed."""
    flaky: bool = False
    """Repeats of one side disagree."""
    spurious: bool = False
    """A side ended in a failure of the machine: no network, a full disk, a lost process."""
    drift: Drift | None = None
    """Of a cell that trains on both sides."""


class Group(Frozen, frozen=True):
    """Cells that changed alike and share a cause: phase, reason and place."""

    change: Change
    misuse: bool
    outcome: str
    """Of the side that fails: the candidate, or for what is fixed the baseline."""
    gradient: Gradient | None
    cause: str | None
    """The cause of the diagnosis."""
    module: str | None
    """The first module that it concerns, of the first cell."""
    place: Frame | None
    """The responsible line of code, of the first cell; all cells share file and function."""
    text: tuple[str, ...]
    """The diagnosis of the first cell; else its message."""
    advice: str | None
    """What to do about it: what was seen to work on the same stack, where there is such a cell."""
    remedy: str | None
    """``SCENARIO/VARIANT`` that was seen to train on the side that fails."""
    cells: tuple[Cell, ...]


class Counts(Frozen, frozen=True):
    """How many cells changed in which way."""

    regressed: int = 0
    broke_differently: int = 0
    fixed: int = 0
    inconclusive: int = 0
    judged_elsewhere: int = 0
    new: int = 0
    gone: int = 0
    unchanged: int = 0


class Comparison(Frozen, frozen=True):
    """A whole comparison: everything that a report says."""

    schema: Literal[1]
    verdict: Verdict
    headline: str
    """The answer in a sentence or two."""
    baseline: str
    candidate: str
    pairs: tuple[Pair, ...]
    """One, or one for each stack that two runs share."""
    training: Counts
    """Of the cells that should train."""
    misuse: Counts
    """Of the cells that cannot train and pass where the stack says so."""
    not_judged: int
    """Cells that neither side judged, or whose device one side does not have; they are in none of the counts."""
    missing: tuple[Cell, ...]
    """Cells of the baseline of which the candidate has no record: nothing is said of them, and they are not counted."""
    groups: tuple[Group, ...]
    cells: tuple[CellChange, ...]
    measured: tuple[Measured, ...] = ()
    """Cells that were measured side by side, the worst first."""
    notes: tuple[str, ...] = ()
    """What else a reader must know: sentences."""

    @property
    def exit_code(self) -> int:
        """0 safe, 1 something regressed or got slower or hungrier, 3 cells are inconclusive, or were not run."""
        return EXIT_CODES[self.verdict]

    @property
    def several(self) -> bool:
        """Whether more than one stack is compared, so that a cell is named with its stack."""
        return len(self.pairs) > 1
