"""The outcomes of a cell, ``trains`` or ``phase:reason``: TABLE has a row for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Phase(StrEnum):
    """Where a cell failed, in the order in which the phases happen."""

    RESOLVE = "resolve"
    INSTALL = "install"
    IMPORT = "import"
    SETUP = "setup"
    STEP = "step"
    GRADIENT = "gradient"
    UPDATE = "update"
    RELATION = "relation"
    PROCESS = "process"


PHASES = {
    Phase.RESOLVE: "finding releases that fit together",
    Phase.INSTALL: "installing them",
    Phase.IMPORT: "importing the libraries",
    Phase.SETUP: "building the model, the data and the optimizer",
    Phase.STEP: "running the training loop",
    Phase.GRADIENT: "training ended: which gradients arrived",
    Phase.UPDATE: "the gradients arrived: which parameters changed",
    Phase.RELATION: "it trains: whether an equivalent variant trains in the same way",
    Phase.PROCESS: "at any time: how the process ended",
}
"""What happens in each phase, for people."""
NOT_INSTALLED = frozenset({Phase.RESOLVE, Phase.INSTALL})
"""A failure in these phases is that of every cell of the stack."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is known of one outcome."""

    outcome: str
    """``trains`` or ``phase:reason``; ``N`` stands for a number."""
    judged: bool = True
    """It says something about the stack."""
    of_the_machine: bool = False
    """It says something about the machine instead: another machine may give another outcome."""
    spurious: bool = False
    """It is retried, and never counts as a regression."""
    limit: str | None = None
    """The input of a record that holds the limit; a higher limit may change the outcome."""
    doc: str
    """What it means, for people. It is no part of a record's key: new words re-run nothing."""

    @property
    def phase(self) -> Phase | None:
        """The phase in which it ended; None for ``trains``."""
        phase, colon, _ = self.outcome.partition(":")
        return Phase(phase) if colon else None

    @property
    def ran(self) -> bool:
        """Whether the script of the cell was run on the stack."""
        return self.judged and self.phase not in NOT_INSTALLED

    @property
    def shown_by_one_run(self) -> bool:
        """Whether one run of the script shows it. A relation shows only beside another variant."""
        return self.ran and self.phase is not Phase.RELATION

    @property
    def implies_gradient(self) -> bool:
        """Whether it says enough about the gradient: a cell that disagrees trains, for example."""
        known = {TRAINS, NO_GRAD_FN}
        return self.outcome in known or self.phase in {Phase.GRADIENT, Phase.RELATION}


# A new outcome is one row here and one rule in judge/verdict.py.
# fmt: off
TABLE = (
    Row(outcome="trains",
        doc="It ran to its last step; every parameter that should learn got a finite, non-zero "
        "gradient and changed, and the loss stayed finite."),
    Row(outcome="resolve:conflict",
        doc="No set of releases meets the stack's requirements."),
    Row(outcome="resolve:no-release",
        doc="The package index had no such release on that day."),
    Row(outcome="resolve:index-unreachable", judged=False, of_the_machine=True, spurious=True,
        doc="The package index could not be reached. This says nothing about the stack."),
    Row(outcome="install:network", judged=False, of_the_machine=True, spurious=True,
        doc="The network failed during installation. This says nothing about the stack."),
    Row(outcome="install:build",
        doc="A release had to be built from source, and the build failed."),
    Row(outcome="install:disk-full", judged=False, of_the_machine=True, spurious=True,
        doc="The disk was full during installation. This says nothing about the stack."),
    Row(outcome="install:hash-mismatch",
        doc="A downloaded file is not the one in the lock."),
    Row(outcome="import:missing-module",
        doc="The libraries could not be imported: a module is missing."),
    Row(outcome="import:exception",
        doc="The libraries could not be imported: an exception was raised."),
    Row(outcome="setup:exception",
        doc="An exception was raised before the first optimizer was built."),
    Row(outcome="setup:unsupported", judged=False,
        doc="The stack does not have this feature. This is no failure; the cell is not judged."),
    Row(outcome="setup:no-device", judged=False, of_the_machine=True,
        doc="The machine does not have this device. This says nothing about the stack."),
    Row(outcome="step:no-grad-fn",
        doc="The loss had no graph (no grad_fn): backward found no path from it to any parameter."),
    Row(outcome="step:exception",
        doc="An exception was raised during training."),
    Row(outcome="step:nonfinite-loss",
        doc="The loss became NaN or infinite."),
    Row(outcome="gradient:none",
        doc="Training ended, but no parameter that should learn ever got a gradient."),
    Row(outcome="gradient:partial",
        doc="Training ended, but some parameters that should learn got no gradient or only zeros."),
    Row(outcome="gradient:zero",
        doc="Training ended, but every gradient was exactly zero."),
    Row(outcome="gradient:nonfinite",
        doc="Training ended, but a gradient was NaN or infinite."),
    Row(outcome="update:none",
        doc="Training ended, but no parameter that should learn ever changed."),
    Row(outcome="update:partial",
        doc="Training ended, but some parameters that should learn never changed."),
    Row(outcome="update:skipped",
        doc="Training ended, but GradScaler skipped every step of the optimizer: some gradients "
        "were NaN or infinite each time."),
    Row(outcome="update:ranks-differ",
        doc="Everything learns, but ranks that began with equal parameters have different ones "
        "afterwards: each trains a model of its own."),
    Row(outcome="update:unseen", judged=False,
        doc="It ran to its end, but nothing happened that is watched, or it could not be read. "
        "It may train."),
    Row(outcome="relation:disagrees",
        doc="It trains, but its losses or gradients differ from those of a variant that should be "
        "equivalent."),
    Row(outcome="process:timeout", limit="timeout_s",
        doc="It was still running at the time limit."),
    Row(outcome="process:out-of-memory", limit="memory_bytes",
        doc="It ran out of memory."),
    Row(outcome="process:signal-N",
        doc="The process was killed by a signal."),
    Row(outcome="process:exit-N",
        doc="The process exited before the cell was done."),
    Row(outcome="process:lost", judged=False, of_the_machine=True, spurious=True,
        doc="The process disappeared, or something outside killed it. "
        "This says nothing about the stack."),
    Row(outcome="process:disk-full", judged=False, of_the_machine=True, spurious=True,
        doc="The disk was full while the cell ran. This says nothing about the stack."),
    Row(outcome="process:internal-error", judged=False, of_the_machine=True, spurious=True,
        doc="gradmatrix itself failed while the cell ran. This says nothing about the stack."),
)
# fmt: on


@cache
def row_of(outcome: str) -> Row:
    """The row of an outcome. ValueError for a text that is none."""
    for row in TABLE:
        if re.fullmatch(row.outcome.replace("N", "[0-9]{1,10}"), outcome):
            return row
    raise ValueError(f"{outcome!r} is no outcome that this release knows")


def phase_of(outcome: str) -> Phase | None:
    """Where a cell failed; None for ``trains``. ValueError for a text that is no outcome."""
    return row_of(outcome).phase


@dataclass(frozen=True)
class Outcome:
    """The verdict on a cell. ValueError for a text that is no outcome."""

    text: str

    def __post_init__(self) -> None:
        row_of(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def phase(self) -> Phase | None:
        """Where the cell failed; None where it trains."""
        return row_of(self.text).phase

    @property
    def reason(self) -> str:
        """How it failed, within its phase; empty where it trains."""
        return self.text.partition(":")[2]

    @property
    def trains(self) -> bool:
        """Whether the cell trained."""
        return self.text == TRAINS

    @property
    def spurious(self) -> bool:
        """Whether it is retried and never counts as a regression."""
        return row_of(self.text).spurious

    @property
    def judged(self) -> bool:
        """Whether it says anything about the stack."""
        return row_of(self.text).judged


def named(outcome: str) -> str:
    """A constant for code that compares outcomes. ValueError if TABLE has no such row."""
    return str(Outcome(outcome))


TRAINS = "trains"
CONFLICT = named("resolve:conflict")
NO_RELEASE = named("resolve:no-release")
INDEX_UNREACHABLE = named("resolve:index-unreachable")
NETWORK = named("install:network")
BUILD = named("install:build")
DISK_FULL = named("install:disk-full")
HASH_MISMATCH = named("install:hash-mismatch")
UNSUPPORTED = named("setup:unsupported")
NO_DEVICE = named("setup:no-device")
MISSING_MODULE = named("import:missing-module")
IMPORT_EXCEPTION = named("import:exception")
SETUP_EXCEPTION = named("setup:exception")
NO_GRAD_FN = named("step:no-grad-fn")
STEP_EXCEPTION = named("step:exception")
NONFINITE_LOSS = named("step:nonfinite-loss")
NO_UPDATE = named("update:none")
PARTIAL_UPDATE = named("update:partial")
SKIPPED_STEPS = named("update:skipped")
RANKS_DIFFER = named("update:ranks-differ")
UNSEEN = named("update:unseen")
DISAGREES = named("relation:disagrees")
TIMEOUT = named("process:timeout")
OUT_OF_MEMORY = named("process:out-of-memory")
LOST = named("process:lost")
NO_SPACE = named("process:disk-full")
INTERNAL_ERROR = named("process:internal-error")

SAYS_DISK_FULL = re.compile(
    r"no space left on device|os error 28\b|os error 112\b|disk quota exceeded", re.IGNORECASE
)
"""What programs print if the disk is full."""

SPURIOUS = frozenset(row.outcome for row in TABLE if row.spurious)
NOT_JUDGED = frozenset(row.outcome for row in TABLE if not row.judged)
OF_THE_MACHINE = frozenset(row.outcome for row in TABLE if row.of_the_machine)
LIMIT_OF = {row.outcome: row.limit for row in TABLE if row.limit is not None}
"""The input that holds the limit, by outcome. Limits are no part of a cell's key."""


def killed_by(signal: int) -> Outcome:
    """The outcome of a process that a signal ended."""
    return Outcome(f"process:signal-{signal}")


def exited_with(status: int) -> Outcome:
    """The outcome of a process that exited by itself."""
    return Outcome(f"process:exit-{status}")


def gradient_note(outcome: str, gradient: str | None) -> str:
    """The gradient status, as ``gradient flowing``; empty if the outcome implies it."""
    return f"gradient {gradient}" if gradient and not row_of(outcome).implies_gradient else ""


def outcomes_by_phase() -> list[tuple[Phase, str, list[Row]]]:
    """Every outcome but ``trains``: each phase, what happens in it, and its rows."""
    return [
        (phase, happens, [row for row in TABLE if row.phase is phase])
        for phase, happens in PHASES.items()
    ]
