"""The words of the project as types: frozen, parsed once at the edge, compared by value.

Units are in the names: ``_s`` seconds, ``_bytes`` bytes. The words are those of the table in ``CONTRIBUTING.md``.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import msgspec

from gradmatrix.core.observation import Frozen, Observation


class Role(StrEnum):
    """What a variant is there to show."""

    CONTROL = "control"
    REPORTED = "reported"
    REMEDY = "remedy"
    MISUSE = "misuse"


class Gradient(StrEnum):
    """Gradient status of a cell over the audited steps; a column of its own, never a shade of pass."""

    FLOWING = "flowing"
    PARTIAL = "partial"
    NONE = "none"
    ZERO = "zero"
    NONFINITE = "nonfinite"


class Build(StrEnum):
    """Which build of torch is installed: a property of the machine, not of the stack."""

    CPU = "cpu"
    CUDA = "cuda"
    DEFAULT = "default"  # the index's default wheel on a machine where it is neither


class Stack(Frozen, frozen=True):
    """A named set of requirements, a Python, and the day the index is read as of."""

    name: str
    python: str
    requirements: tuple[str, ...]
    as_of: dt.date | Literal["today"]
    core: bool = False
    summary: str = ""


class LockedPackage(Frozen, frozen=True):
    """One package of a lock, and how it compares with the newest release of the lock's as-of date."""

    name: str
    version: str
    released: dt.date | None = None
    newest: str | None = None
    newest_released: dt.date | None = None

    @property
    def behind_days(self) -> int | None:
        """Days between this release and the newest one of the as-of date; None where a date is not known."""
        if self.released is None or self.newest_released is None:
            return None
        return max(0, (self.newest_released - self.released).days)


class Lock(Frozen, frozen=True):
    """A stack resolved once: every package at one version. The unit of reproduction."""

    stack: str
    python: str
    as_of: dt.date
    requirements: tuple[str, ...]
    packages: tuple[LockedPackage, ...]
    digest: str
    """sha256 of the requirements text that ``uv pip install`` reads; empty where resolution failed."""
    resolver: str
    failure: Failure | None = None

    def version(self, name: str) -> str | None:
        """The locked version of ``name``, or None where the lock has no such package."""
        return next((p.version for p in self.packages if p.name == name), None)


class Variant(Frozen, frozen=True):
    """One configuration of a scenario."""

    name: str
    role: Role
    summary: str
    needs: tuple[str, ...]
    cures: tuple[str, ...] = ()
    """The causes of a missing gradient that people use it against: words of ``causes.Cause``."""


class Relation(Frozen, frozen=True):
    """Two variants of a scenario that do the same maths: where both train, they must agree."""

    first: str
    second: str
    """The one that is said to disagree."""
    rtol: float = 1e-3
    """Relative to the larger of two losses, or of two gradient norms."""
    only: Literal["first loss"] | None = None
    """All that must agree, where it is not every loss and gradient norm of the audited steps."""


class Scenario(Frozen, frozen=True):
    """One training set-up: a script whose literals were read without importing it."""

    name: str
    title: str
    path: str
    source_digest: str
    variants: tuple[Variant, ...]
    agree: tuple[Relation, ...] = ()
    arguments: tuple[str, ...] | None = None
    """Of a user's own script, run as ``python path arguments`` would; None for a scenario, which has ``train``."""
    directory: str | None = None
    """Where a user's own script runs; None for a folder of the cell's own."""


class Cell(Frozen, frozen=True, order=True):
    """stack x scenario x variant x device: what one record is about."""

    stack: str
    scenario: str
    variant: str
    device: str

    def __str__(self) -> str:
        return f"{self.stack}/{self.scenario}/{self.variant}/{self.device}"


class Steps(Frozen, frozen=True):
    """How many optimizer steps a cell runs: first audited, then warm-up, then timed."""

    audit: int = 4
    warmup: int = 4
    timed: int = 12

    @property
    def total(self) -> int:
        """All steps of a cell."""
        return self.audit + self.warmup + self.timed


class Failure(Frozen, frozen=True):
    """Why a stack could not be resolved, installed or started: fills its whole column."""

    outcome: str
    message: str


class Record(Frozen, frozen=True):
    """One cell's identity, outcome, observation and timings: one line of JSON."""

    schema: Literal[1]
    cell: Cell
    role: Role
    key: str
    """Hash of all that the verdict depends on; the cell is run again only when it changes."""
    outcome: str
    passed: bool | None
    gradient: Gradient | None
    message: str
    recorded_at: dt.datetime
    run: str
    isolation: Literal["fork", "fresh", "none"]
    """How the cell was isolated; "none" where nothing was run (unsupported, no device, a failed install)."""
    inputs: dict[str, str] = msgspec.field(default_factory=dict)
    """The parts of ``key`` by name, so that ``--explain`` can say which one changed."""
    build: str = ""
    observation: Observation | None = None

    @property
    def lock(self) -> str:
        """The first digits of its lock's digest; empty in a record of an old release."""
        return self.inputs.get("lock", "")

    @property
    def device(self) -> str:
        """The kind of machine: its processor architecture or the name of its GPU."""
        return self.inputs.get("device", "")


SHOWN = ("torch", "lightning", "transformers", "trl", "peft")


@dataclass(frozen=True)
class Published:
    """The newest record of every cell, whole: what commands about single cells need."""

    locks: tuple[Lock, ...]
    """By as-of date, the oldest first."""
    scenarios: dict[str, Scenario]
    records: tuple[Record, ...]

    @property
    def stacks(self) -> list[str]:
        """Names of the stacks, oldest as-of date first."""
        return [lock.stack for lock in self.locks]
