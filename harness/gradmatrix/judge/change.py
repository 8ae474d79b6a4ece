"""Pure: how a cell stands on each side, and so what became of it: exhaustive matches over the pair."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, assert_never

from gradmatrix.core.model import Role
from gradmatrix.core.outcomes import LIMIT_OF, OF_THE_MACHINE, SPURIOUS, TRAINS
from gradmatrix.judge.changes import LIMITS, LOCK, MACHINE, NOT_OURS
from gradmatrix.judge.relations import DISAGREES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradmatrix.core.model import Record


class Change(StrEnum):
    """What became of a cell from baseline to candidate: the words for a change in ``CONTRIBUTING.md``."""

    REGRESSED = "regressed"
    BROKE_DIFFERENTLY = "broke differently"
    FIXED = "fixed"
    INCONCLUSIVE = "inconclusive"
    """Repeats of one side disagree, a side ended in a failure of the machine, or nothing changed but the verdict."""
    ELSEWHERE = "judged elsewhere"
    """Another verdict on another machine or build of torch, with the same packages: no news of the stack."""
    NEW = "new"
    """Judged by the candidate alone: the baseline has no such feature, or did not run it."""
    GONE = "gone"
    """Judged by the baseline alone: the candidate has no such feature. What it did not run is ``missing``."""
    UNCHANGED = "unchanged"


UNSUPPORTED = "setup:unsupported"
NO_DEVICE = "setup:no-device"
OF_VERDICTS = frozenset({Change.REGRESSED, Change.FIXED, Change.BROKE_DIFFERENTLY})
"""Changes that say that a judged cell is judged otherwise."""


class Standing(Enum):
    """What a side says of a cell."""

    PASSED = auto()
    FAILED = auto()
    NOTHING = auto()
    """It has no such feature, or no such device."""
    MISSING = auto()
    """It has no record of it."""
    OPEN = auto()
    """Its runs disagree about whether it passes, or it ended in a failure of the machine."""


@dataclass(frozen=True)
class Stood:
    """One side of a cell."""

    record: Record | None
    repeats: tuple[str, ...] = ()

    @property
    def spurious(self) -> bool:
        """Its record speaks of the machine, or all its further runs do."""
        return self.record is not None and (self.record.outcome in SPURIOUS or self.unconfirmed)

    @property
    def unconfirmed(self) -> bool:
        """It was run again, and no further run says anything of the stack."""
        return bool(self.repeats) and OF_THE_MACHINE.issuperset(self.repeats)

    @property
    def lacks_device(self) -> bool:
        """Its machine has no such device."""
        return self.record is not None and self.record.outcome == NO_DEVICE

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Of all its runs that speak of the stack, without repetition."""
        if self.record is None:
            return ()
        ran = (each for each in (self.record.outcome, *self.repeats) if each not in OF_THE_MACHINE)
        return tuple(dict.fromkeys(ran))

    @property
    def flaky(self) -> bool:
        """Its runs disagree."""
        return len(self.outcomes) > 1

    @property
    def standing(self) -> Standing:
        """What it says; a cell that fails in several ways fails, and is flaky all the same."""
        if self.record is None:
            return Standing.MISSING
        if self.record.outcome in {UNSUPPORTED, NO_DEVICE}:
            return Standing.NOTHING
        if self.spurious or self.record.passed is None:
            return Standing.OPEN
        if self.flaky and (TRAINS in self.outcomes or self.record.role is Role.MISUSE):
            return Standing.OPEN
        return Standing.PASSED if self.record.passed else Standing.FAILED


def as_it_ran(outcome: str) -> str:
    """The outcome of one run: that variants disagree is found when records are read together, no run says so."""
    return TRAINS if outcome == DISAGREES else outcome


def change_of(before: Stood, after: Stood) -> Change | None:
    """What became of a cell; None where there is nothing to compare.

    That is where no side judged it, where one lacks the device, or where the candidate has no record: that a feature is
    gone is said by a run, and by nothing else.
    """
    if before.lacks_device or after.lacks_device:
        return None
    if not is_asked_the_same(before.record, after.record):
        return Change.NEW
    change = matched(before.standing, after.standing)
    if before.standing is after.standing is Standing.FAILED:
        change = of_failures(before, after)
    return attributed(change, before, after) if change in OF_VERDICTS else change


def is_missing(before: Stood, after: Stood) -> bool:
    """Whether the baseline says something of a cell of which the candidate has no record."""
    return after.standing is Standing.MISSING and before.standing not in {
        Standing.MISSING,
        Standing.NOTHING,
    }


def matched(before: Standing, after: Standing) -> Change | None:
    """Every pair of standings; two failures are told apart by ``of_failures``."""
    match before:
        case Standing.PASSED:
            return where(
                after, passed=Change.UNCHANGED, failed=Change.REGRESSED, nothing=Change.GONE
            )
        case Standing.FAILED:
            return where(after, passed=Change.FIXED, failed=Change.UNCHANGED, nothing=Change.GONE)
        case Standing.NOTHING | Standing.MISSING:
            return where(after, passed=Change.NEW, failed=Change.NEW, nothing=None)
        case Standing.OPEN:
            unsaid = Change.INCONCLUSIVE
            return where(after, passed=unsaid, failed=unsaid, nothing=unsaid)
        case _:
            assert_never(before)


def where(
    after: Standing, *, passed: Change, failed: Change, nothing: Change | None
) -> Change | None:
    """The change that the candidate's standing picks; nothing is said where it has no record."""
    match after:
        case Standing.PASSED:
            return passed
        case Standing.FAILED:
            return failed
        case Standing.NOTHING:
            return nothing
        case Standing.MISSING:
            return None
        case Standing.OPEN:
            return Change.INCONCLUSIVE
        case _:
            assert_never(after)


def of_failures(before: Stood, after: Stood) -> Change:
    """Of a cell that fails on both sides: in the same way, or in another one."""
    if way_of_failing(before.record) == way_of_failing(after.record):
        return Change.UNCHANGED
    if before.flaky or after.flaky:
        return Change.INCONCLUSIVE
    return Change.BROKE_DIFFERENTLY


def way_of_failing(record: Record | None) -> tuple[object, ...]:
    """All that makes one failure another one."""
    return () if record is None else (record.outcome, record.gradient)


def is_asked_the_same(before: Record | None, after: Record | None) -> bool:
    """Whether to pass means the same: a misuse passes where the stack says so, all else where it trains."""
    return (
        before is None
        or after is None
        or (before.role is Role.MISUSE) is (after.role is Role.MISUSE)
    )


def attributed(change: Change, before: Stood, after: Stood) -> Change:
    """The change of verdict, if packages may have made it: they moved, or something of ours did."""
    changed = inputs_changed(before, after)
    if LOCK in changed:
        return change
    if not changed:
        return Change.INCONCLUSIVE
    return Change.ELSEWHERE if not changed.isdisjoint(MACHINE) else change


def inputs_changed(before: Stood, after: Stood) -> set[str]:
    """Names of the inputs that differ; a limit only where one of the two met it."""
    one, other = before.record, after.record
    if one is None or other is None:
        return set()
    met = {LIMIT_OF.get(one.outcome), LIMIT_OF.get(other.outcome)}
    names = {
        name
        for name in one.inputs.keys() | other.inputs.keys()
        if name not in LIMITS or name in met
    }
    found = {name for name in names if one.inputs.get(name) != other.inputs.get(name)}
    if one.build and other.build and one.build != other.build:
        found.add("build")
    if len({python(one), python(other)} - {""}) > 1:
        found.add(LOCK)  # its digest is of the packages alone
    return found


def python(record: Record) -> str:
    """The Python that it ran on; empty where nothing ran."""
    return (
        record.observation.environment.get("python", "") if record.observation is not None else ""
    )


def why(change: Change, before: Stood, after: Stood) -> str:
    """What is to be known of a change besides the packages that moved; empty where that is nothing."""
    return " ".join(reasons(change, before, after))


def reasons(change: Change, before: Stood, after: Stood) -> Iterator[str]:
    """The sentences of ``why``."""
    if change is Change.NEW:
        yield (
            nothing_of("baseline", before)
            if is_asked_the_same(before.record, after.record)
            else "Its role changed."
        )
    if change is Change.GONE:
        yield nothing_of("candidate", after)
    if change in OF_VERDICTS or change in {Change.INCONCLUSIVE, Change.ELSEWHERE}:
        for name, side in (("baseline", before), ("candidate", after)):
            yield from unsure(name, side)
        yield from besides(change, before, after)


def nothing_of(name: str, side: Stood) -> str:
    """Why a side says nothing of a cell."""
    if side.record is None:
        return f"The {name} has no record of it."
    return f"Not judged on the {name}: {side.record.message or side.record.outcome}."


def unsure(name: str, side: Stood) -> Iterator[str]:
    """Why a side cannot be relied on."""
    if side.spurious and side.record is not None:
        if side.record.outcome in SPURIOUS:
            yield f"The {name} ended in a failure of the machine: {side.record.outcome}."
        else:
            yield f"The {name} was run again, and only the machine failed: {', '.join(dict.fromkeys(side.repeats))}."
    elif side.flaky and side.record is not None:
        yield f"The {name} is flaky: {tally((side.record.outcome, *side.repeats))}."


def tally(outcomes: tuple[str, ...]) -> str:
    """How often each outcome came, as ``trains 2 of 3, step:exception 1 of 3``."""
    ran = [each for each in outcomes if each not in OF_THE_MACHINE]
    return ", ".join(f"{each} {ran.count(each)} of {len(ran)}" for each in dict.fromkeys(ran))


def besides(change: Change, before: Stood, after: Stood) -> Iterator[str]:
    """What else than the packages differs between the two runs."""
    changed = inputs_changed(before, after)
    if before.record is None or after.record is None:
        return
    if "device" in changed:
        yield f"Another machine: {before.record.inputs.get('device')} → {after.record.inputs.get('device')}."
    if "build" in changed:
        yield f"Another build of torch: {before.record.build} → {after.record.build}."
    ours = sorted(name for name in changed if name not in NOT_OURS or name in LIMITS)
    if ours:
        yield f"Our own measurement differs: {', '.join(ours)}."
    is_open = before.spurious or before.flaky or after.spurious or after.flaky
    if change is Change.INCONCLUSIVE and not changed and not is_open:
        yield "Nothing that the verdict depends on differs: the same inputs gave another one."
