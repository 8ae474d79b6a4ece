"""The words of the project as types: frozen, parsed once at the edge, compared by value.

Units are in the names: ``_s`` seconds, ``_bytes`` bytes. The words are those of the
table in ``docs/design.md``.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from gradmatrix.core.observation import Frozen, Observation, Rate, rate_of
from gradmatrix.core.outcomes import TRAINS, row_of

if TYPE_CHECKING:
    from collections.abc import Container


class Role(StrEnum):
    """What a variant shows."""

    CONTROL = "control"
    REPORTED = "reported"
    REMEDY = "remedy"
    MISUSE = "misuse"


class Gradient(StrEnum):
    """Gradient status of a cell over the audited steps, separate from whether the cell passes."""

    FLOWING = "flowing"
    PARTIAL = "partial"
    NONE = "none"
    ZERO = "zero"
    NONFINITE = "nonfinite"


class Build(StrEnum):
    """The installed build of torch: it depends on the machine, not on the stack."""

    CPU = "cpu"
    CUDA = "cuda"
    DEFAULT = "default"  # the index's default wheel on a machine where it is neither


class Stack(Frozen, frozen=True):
    """A named set of requirements, a Python, and the day as of which the package index is read."""

    name: str
    python: str
    requirements: tuple[str, ...]
    as_of: dt.date | Literal["today"]
    core: bool = False
    summary: str = ""
    build: tuple[str, ...] = ()
    """Canonical names of the packages that are built from their source releases. No others are."""
    scenarios: tuple[str, ...] = ()
    """The only scenarios that it runs; empty: all."""
    prereleases: bool = False
    """Every package may be a pre-release: what is coming. It has no history and never regresses."""


class LockedPackage(Frozen, frozen=True):
    """One package of a lock, and its newest release on the lock's as-of date."""

    name: str
    version: str
    released: dt.date | None = None
    newest: str | None = None
    newest_released: dt.date | None = None

    @property
    def behind_days(self) -> int | None:
        """Days from this release to the newest one of the as-of date; None if not known."""
        if self.released is None or self.newest_released is None:
            return None
        return max(0, (self.newest_released - self.released).days)


class Lock(Frozen, frozen=True):
    """A resolved stack: every package at one version. It is what is installed and reproduced."""

    stack: str
    python: str
    as_of: dt.date
    requirements: tuple[str, ...]
    packages: tuple[LockedPackage, ...]
    digest: str
    """sha256 of the requirements text that ``uv pip install`` reads; empty if resolution failed."""
    resolver: str
    failure: Failure | None = None
    build: tuple[str, ...] = ()
    """The packages that the stack allows to be built."""
    prereleases: bool = False
    """Whether every package may be a pre-release."""

    def version(self, name: str) -> str | None:
        """The locked version of ``name``; None if the lock has no such package."""
        return next((p.version for p in self.packages if p.name == name), None)


class Variant(Frozen, frozen=True):
    """One configuration of a scenario."""

    name: str
    role: Role
    summary: str
    needs: tuple[str, ...]
    cures: tuple[str, ...] = ()
    """The causes of a missing gradient that it is used against: words of ``judge.causes.Cause``."""
    mends: tuple[str, ...] = ()
    """The variants that it is for; empty if it is for all of them."""

    def is_tested(self, failing: Container[str]) -> bool:
        """Whether a stack on which the variants ``failing`` fail shows if it helps."""
        return not self.mends or any(name in failing for name in self.mends)


class Relation(Frozen, frozen=True):
    """Two equivalent variants of a scenario: if both train, losses and gradients must agree."""

    first: str
    second: str
    """The variant that gets the outcome ``relation:disagrees``."""
    rtol: float = 1e-3
    """Tolerance relative to the larger of two losses, or of two gradient norms."""
    only: Literal["first loss", "losses"] | None = None
    """What must agree, if it is not every loss and gradient norm of the audited steps."""


class Scenario(Frozen, frozen=True):
    """One training set-up: a script whose literals are read without importing it."""

    name: str
    title: str
    path: str
    source_digest: str
    variants: tuple[Variant, ...]
    agree: tuple[Relation, ...] = ()
    arguments: tuple[str, ...] | None = None
    """Arguments of a user's own script, run like ``python path arguments``; None for a scenario."""
    directory: str | None = None
    """Where a user's own script runs; None: in a folder that is made for the cell."""
    packages: tuple[str, ...] = ()
    """Folders with packages of the user's that the script imports."""


class Cell(Frozen, frozen=True, order=True):
    """Stack, scenario, variant and device: what one record is about."""

    stack: str
    scenario: str
    variant: str
    device: str

    def __str__(self) -> str:
        return f"{self.stack}/{self.scenario}/{self.variant}/{self.device}"


class Steps(Frozen, frozen=True):
    """How many optimizer steps a cell runs: audited, then warm-up, then timed ones."""

    audit: int = 4
    warmup: int = 4
    timed: int = 12

    @property
    def total(self) -> int:
        """All steps of a cell."""
        return self.audit + self.warmup + self.timed


class Failure(Frozen, frozen=True):
    """Why a stack could not be resolved, installed or started; all its cells get this outcome."""

    outcome: str
    message: str


Moment = Annotated[dt.datetime, msgspec.Meta(tz=True)]
"""A time with its time zone."""


class Reference(Frozen, frozen=True):
    """How fast the machine was beside a cell: the seconds of a fixed piece of work, in order."""

    program: str
    """The identity of that work and of what runs it. Times of two programs are never compared."""
    before_s: tuple[float, ...]
    after_s: tuple[float, ...]


class Record(Frozen, frozen=True):
    """One cell's identity, outcome, observation and timings: one line of JSON."""

    schema: Literal[1]
    cell: Cell
    role: Role
    key: str
    """Hash of all inputs of the verdict; the cell runs again only if it changes."""
    outcome: str
    passed: bool | None
    gradient: Gradient | None
    message: str
    recorded_at: Moment
    run: str
    isolation: Literal["fork", "fresh", "none"]
    """How the cell was isolated; "none" if nothing ran (unsupported, no device, …)."""
    inputs: dict[str, str] = msgspec.field(default_factory=dict)
    """The parts of ``key`` by name; ``--explain`` names the one that changed."""
    build: str = ""
    observation: Observation | None = None
    repeats: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """The judged outcomes of earlier runs with the same key, oldest first; not written if none."""
    reference: Reference | msgspec.UnsetType = msgspec.UNSET
    """Of a cell with step times on the processor, if its run took one."""

    @property
    def judged_runs(self) -> tuple[str, ...]:
        """The outcomes of all its judged runs with this key, oldest first."""
        earlier = self.repeats or ()
        return (*earlier, self.outcome) if row_of(self.outcome).judged else earlier

    @property
    def flaky(self) -> bool:
        """Whether its runs with this key ended in different ways."""
        return len(set(self.judged_runs)) > 1

    @property
    def steps_per_s(self) -> Rate | None:
        """Its rate; None if it does not train, or has fewer than two timed steps."""
        if self.observation is None or self.outcome != TRAINS:
            return None
        return rate_of(self.observation.step_times_s)

    @property
    def known_at(self) -> dt.datetime:
        """When its verdict was last seen: a newer run may have confirmed a published record."""
        return self.recorded_at

    @property
    def lock(self) -> str:
        """The first digits of its lock's digest; empty in a record of an old release."""
        return self.inputs.get("lock", "")

    @property
    def device(self) -> str:
        """The kind of machine: its processor architecture or the name of its GPU."""
        return self.inputs.get("device", "")


class Confirmed(Record, frozen=True, kw_only=True):
    """A published record that a newer run confirmed.

    ``key`` and ``inputs`` are those of the newer run. All else is as it was recorded.
    """

    confirmed_at: Moment
    confirmed_by: str
    """The newer run."""
    recorded_key: str
    recorded_inputs: dict[str, str]

    @property
    def known_at(self) -> dt.datetime:
        """When the verdict was last seen."""
        return self.confirmed_at


SHOWN = ("torch", "lightning", "transformers", "trl", "peft")
"""The main packages: tables show their versions, and stacks are compared by them."""


@dataclass(frozen=True)
class Published:
    """The newest record of every cell, complete: for commands about single cells."""

    locks: tuple[Lock, ...]
    """By as-of date, the oldest first."""
    scenarios: dict[str, Scenario]
    records: tuple[Record, ...]

    @property
    def stacks(self) -> list[str]:
        """Names of the stacks, oldest as-of date first."""
        return [lock.stack for lock in self.locks]
