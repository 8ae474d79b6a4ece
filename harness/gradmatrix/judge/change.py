"""What became of a cell, between the sides of a comparison or between the entries of its history.

Both use the same words, the same rule for a pair of verdicts, and the same sentences for reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Protocol

from gradmatrix.core.model import Role
from gradmatrix.core.outcomes import (
    DISAGREES,
    LIMIT_OF,
    NO_DEVICE,
    NOT_JUDGED,
    OF_THE_MACHINE,
    SPURIOUS,
    TRAINS,
)
from gradmatrix.core.text import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from gradmatrix.core.model import Gradient, Record

LOCK = "lock"
"""The input of a record that names its packages."""
MACHINE = ("device", "build")
"""Inputs that say where a cell ran: the kind of machine, and its build of torch."""
LIMITS = frozenset(LIMIT_OF.values())
"""Inputs that a verdict depends on only if it says that a limit was met."""


class Change(StrEnum):
    """What became of a cell."""

    REGRESSED = "regressed"
    BROKE_DIFFERENTLY = "broke differently"
    FIXED = "fixed"
    INCONCLUSIVE = "inconclusive"
    """Repeats disagree, a side ended in a failure of the machine, or only the verdict changed."""
    ELSEWHERE = "judged elsewhere"
    """Another verdict with the same packages, but on another machine or build of torch."""
    NEW = "new"
    """Judged now but not before: no such feature, no record, or the role was another one."""
    GONE = "gone"
    """Judged before but not now: the stack lost the feature, or the cell left the matrix."""
    UNCHANGED = "unchanged"


OF_VERDICTS = (Change.REGRESSED, Change.FIXED, Change.BROKE_DIFFERENTLY)
"""Changes from one verdict on the stack to another."""


class Standing(Enum):
    """What is known of a cell on one side."""

    PASSED = auto()
    FAILED = auto()
    NOTHING = auto()
    """It was not judged: no such feature, or no such device."""
    MISSING = auto()
    """There is no record."""
    OPEN = auto()
    """Its runs disagree about whether it passes, or it ended in a failure of the machine."""


class Judged(Protocol):
    """A verdict with what it depends on: a record, or an entry of a history."""

    @property
    def role(self) -> Role:
        """The role of the variant."""

    @property
    def outcome(self) -> str:
        """``trains`` or ``phase:reason``."""

    @property
    def gradient(self) -> Gradient | None:
        """Its gradient status."""

    @property
    def device(self) -> str:
        """The kind of machine that it ran on."""

    @property
    def build(self) -> str:
        """The build of torch that it ran on."""


def change_between(
    before: Standing, after: Standing, *, same_failure: bool = True
) -> Change | None:
    """The rule for every pair.

    Args:
        before, after: what is known of the cell on each side.
        same_failure: whether two failures have the same outcome and gradient status.

    Returns:
        None if there is nothing to compare: no side was judged, or the later one was not run.
    """
    change: Change | None
    match before, after:
        case (_, Standing.MISSING) | (Standing.NOTHING | Standing.MISSING, Standing.NOTHING):
            change = None
        case (Standing.OPEN, _) | (_, Standing.OPEN):
            change = Change.INCONCLUSIVE
        case Standing.NOTHING | Standing.MISSING, _:
            change = Change.NEW
        case _, Standing.NOTHING:
            change = Change.GONE
        case Standing.PASSED, Standing.FAILED:
            change = Change.REGRESSED
        case Standing.FAILED, Standing.PASSED:
            change = Change.FIXED
        case Standing.FAILED, Standing.FAILED if not same_failure:
            change = Change.BROKE_DIFFERENTLY
        case _:
            change = Change.UNCHANGED
    return change


def is_asked_the_same(one: Judged, other: Judged) -> bool:
    """Whether "passes" means the same. A misuse passes if the stack says so, others by training."""
    return (one.role is Role.MISUSE) is (other.role is Role.MISUSE)


def is_same_failure(one: Judged, other: Judged) -> bool:
    """Whether two failures have the same outcome and gradient status."""
    return (one.outcome, one.gradient) == (other.outcome, other.gradient)


def attribute_change(change: Change, changed: Collection[str]) -> Change:
    """The change, or ELSEWHERE if the packages are the same but the machine is another one."""
    if change in OF_VERDICTS and LOCK not in changed and any(name in changed for name in MACHINE):
        return Change.ELSEWHERE
    return change


def ours_of(changed: Collection[str]) -> tuple[str, ...]:
    """The changed inputs that are part of our own measurement: neither packages nor machine."""
    return tuple([name for name in changed if name != LOCK and name not in MACHINE])


def explain_inputs(changed: Collection[str], before: Judged, after: Judged) -> Iterator[str]:
    """What else than the packages may be the reason of a change."""
    if "device" in changed:
        one, other = before.device or "unknown", after.device or "unknown"
        yield f"It ran on another machine: {one} → {other}."
    if "build" in changed:
        one, other = before.build or "unknown", after.build or "unknown"
        yield f"It ran on another build of torch: {one} → {other}."
    if ours := ours_of(changed):
        yield f"Our own measurement changed: {', '.join(ours)}."


SAME_INPUTS = "The verdict changed, but nothing that it depends on did."


@dataclass(frozen=True)
class CellSide:
    """A cell on one side of a comparison: its record, and the outcomes of further runs."""

    record: Record | None
    repeats: tuple[str, ...] = ()

    @property
    def spurious(self) -> bool:
        """Its record says something about the machine only, or all its further runs do."""
        return self.record is not None and (self.record.outcome in SPURIOUS or self.unconfirmed)

    @property
    def unconfirmed(self) -> bool:
        """It was run again, and no further run says anything about the stack."""
        return bool(self.repeats) and OF_THE_MACHINE.issuperset(self.repeats)

    @property
    def lacks_device(self) -> bool:
        """Its machine has no such device."""
        return self.record is not None and self.record.outcome == NO_DEVICE

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The different outcomes of its runs, without those that are about the machine only."""
        if self.record is None:
            return ()
        ran = (each for each in (self.record.outcome, *self.repeats) if each not in OF_THE_MACHINE)
        return tuple(dict.fromkeys(ran))

    @property
    def flaky(self) -> bool:
        """Its runs have different outcomes."""
        return len(self.outcomes) > 1

    @property
    def standing(self) -> Standing:
        """What is known of it; a cell that fails in several ways fails, and is flaky too."""
        if self.record is None:
            return Standing.MISSING
        if self.record.outcome in NOT_JUDGED - SPURIOUS:
            return Standing.NOTHING
        if self.spurious or self.record.passed is None:
            return Standing.OPEN
        if self.flaky and (TRAINS in self.outcomes or self.record.role is Role.MISUSE):
            return Standing.OPEN
        return Standing.PASSED if self.record.passed else Standing.FAILED


def outcome_of_run(outcome: str) -> str:
    """The outcome of a run by itself: only the records of two cells together can disagree."""
    return TRAINS if outcome == DISAGREES else outcome


def change_of(before: CellSide, after: CellSide) -> Change | None:
    """What became of a cell of a comparison.

    Returns:
        None if there is nothing to compare: neither side was judged, a machine lacks the device,
        or the candidate has no record. Only a run can say that a feature is gone.
    """
    if before.lacks_device or after.lacks_device:
        return None
    one, other = before.record, after.record
    if one is None or other is None:
        return change_between(before.standing, after.standing)
    if not is_asked_the_same(one, other):
        return Change.NEW
    same = is_same_failure(one, other)
    change = change_between(before.standing, after.standing, same_failure=same)
    if change not in OF_VERDICTS:
        return change
    changed = changed_inputs(one, other)
    flaky_failure = change is Change.BROKE_DIFFERENTLY and (before.flaky or after.flaky)
    if flaky_failure or not changed:
        return Change.INCONCLUSIVE
    return attribute_change(change, changed)


def is_missing(before: CellSide, after: CellSide) -> bool:
    """Whether the baseline knows something of a cell that the candidate has no record of."""
    known = before.standing not in {Standing.MISSING, Standing.NOTHING}
    return known and after.standing is Standing.MISSING


def changed_inputs(before: Record, after: Record) -> list[str]:
    """Names of the inputs that differ, sorted; a limit only if one of the two met it."""
    met = {LIMIT_OF.get(before.outcome), LIMIT_OF.get(after.outcome)}
    found = {
        name
        for name in before.inputs.keys() | after.inputs.keys()
        if before.inputs.get(name) != after.inputs.get(name)
        if name not in LIMITS or name in met
    }
    if before.build and after.build and before.build != after.build:
        found.add("build")
    if len({python_of(before), python_of(after)} - {""}) > 1:
        found.add(LOCK)  # the digest of a lock does not cover its Python
    return sorted(found)


def python_of(record: Record) -> str:
    """The Python that it ran on; empty if nothing ran."""
    seen = record.observation
    return "" if seen is None else seen.environment.get("python", "")


def explain_change(change: Change, before: CellSide, after: CellSide) -> str:
    """What to know about a change besides the packages that moved; empty if there is nothing."""
    return " ".join(sentences(change, before, after))


def sentences(change: Change, before: CellSide, after: CellSide) -> Iterator[str]:
    """The sentences of ``explain_change``."""
    one, other = before.record, after.record
    if change is Change.NEW:
        new_role = one is not None and other is not None and not is_asked_the_same(one, other)
        yield "Its role changed." if new_role else explain_nothing("baseline", before)
    if change is Change.GONE:
        yield explain_nothing("candidate", after)
    if change in OF_VERDICTS or change in {Change.INCONCLUSIVE, Change.ELSEWHERE}:
        yield from explain_doubt("baseline", before)
        yield from explain_doubt("candidate", after)
        if one is not None and other is not None:
            changed = changed_inputs(one, other)
            yield from explain_inputs(changed, one, other)
            is_open = any(side.spurious or side.flaky for side in (before, after))
            if change is Change.INCONCLUSIVE and not changed and not is_open:
                yield SAME_INPUTS


def explain_nothing(name: str, side: CellSide) -> str:
    """Why a side has no verdict on a cell."""
    if side.record is None:
        return f"The {name} has no record of it."
    return f"Not judged on the {name}: {side.record.message or side.record.outcome}."


def explain_doubt(name: str, side: CellSide) -> Iterator[str]:
    """Why a side cannot be relied on, if it cannot."""
    if side.record is None:
        return
    if side.record.outcome in SPURIOUS:
        yield f"The {name} ended in a failure of the machine: {side.record.outcome}."
    elif side.unconfirmed:
        repeats = listed(dict.fromkeys(side.repeats))
        yield f"The {name} was run again, but only the machine failed: {repeats}."
    elif side.flaky:
        yield f"The {name} is flaky: {count_outcomes((side.record.outcome, *side.repeats))}."


def count_outcomes(outcomes: tuple[str, ...]) -> str:
    """How often each outcome came: ``trains 2 of 3, step:exception 1 of 3``."""
    ran = [each for each in outcomes if each not in OF_THE_MACHINE]
    return ", ".join(f"{each} {ran.count(each)} of {len(ran)}" for each in dict.fromkeys(ran))
