"""Pure: changes of verdict in the history of cells, what may be the reason, and what is regressed at present."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from gradmatrix.core.model import Cell, Role
from gradmatrix.core.observation import Frozen
from gradmatrix.judge.changes import LOCK, MACHINE, MEASUREMENT, Entry, by_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradmatrix.judge.changes import Locked

    Locks = Mapping[tuple[str, str], Locked]
    """The locks that were published, by stack and digest."""

FIRST = ("torch", "lightning", "pytorch-lightning", "transformers", "trl", "peft", "accelerate")
"""Packages that are named before the others."""
SHOWN = 6
"""Packages that a sentence names."""


class Kind(StrEnum):
    """What a change of verdict is called: the words for a change in ``CONTRIBUTING.md``."""

    REGRESSED = "regressed"
    FIXED = "fixed"
    BROKE_DIFFERENTLY = "broke differently"
    ELSEWHERE = "judged elsewhere"
    """Another verdict on another machine or build of torch, with the same packages: no news of the stack."""
    NEW = "new"
    """Judged for the first time, or again after it was gone, or in another role."""
    GONE = "gone"
    """No longer judged: it left the matrix, or the stack has the feature no more."""


OF_VERDICTS = (Kind.REGRESSED, Kind.FIXED, Kind.BROKE_DIFFERENTLY)
"""Kinds that say that a judged cell is judged otherwise."""


class Moved(Frozen, frozen=True):
    """A package that differs between two locks; None where a lock does not have it."""

    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.name} {self.before or '(none)'} → {self.after or '(none)'}"


class Flip(Frozen, frozen=True):
    """A change of verdict of one cell."""

    kind: Kind
    before: Entry | None
    """None where there was none, or where it had left the matrix."""
    after: Entry
    changed: tuple[str, ...] = ()
    """Names of the inputs that changed between the two."""
    moved: tuple[Moved, ...] = ()
    """The packages that differ between the two locks, torch and its companions first."""

    @property
    def cell(self) -> Cell:
        """The cell that it is of."""
        return self.after.cell

    @property
    def stack_moved(self) -> bool:
        """Its packages changed: the stack may be the reason."""
        return LOCK in self.changed

    @property
    def ours(self) -> tuple[str, ...]:
        """What of our own measurement changed: it may be the reason."""
        return tuple(name for name in self.changed if name != LOCK and name not in MACHINE)

    @property
    def ours_alone(self) -> bool:
        """Nothing else changed: it is no news of the stack."""
        return bool(self.changed) and self.ours == self.changed

    @property
    def why(self) -> str:
        """What may be the reason, in a sentence or two; empty for a cell that is new or gone without one."""
        return " ".join(reasons(self))


class Regression(Frozen, frozen=True):
    """A cell that fails at present, and passed before the stack moved."""

    flip: Flip
    """From the last entry that passed to the first one after it whose failure may be the stack's."""
    now: Entry

    @property
    def silent(self) -> bool:
        """A misuse that the stack once told of, and does not any more."""
        return self.now.role is Role.MISUSE


def flips(entries: Iterable[Entry], locks: Locks) -> list[Flip]:
    """Every change of verdict, in the order of publication and then of cells; ``entries`` as they were written."""
    found = [flip for each in by_cell(entries).values() for flip in of_one_cell(each, locks)]
    return sorted(found, key=lambda flip: (flip.after.published, flip.after.cell))


def of_one_cell(entries: Iterable[Entry], locks: Locks) -> Iterator[Flip]:
    """The changes of verdict of a cell. One that is judged again is compared with when it was judged last."""
    last: Entry | None = None
    is_judged = False
    since: list[Entry] = []
    for each in entries:
        if last is not None and not is_asked_the_same(last, each):
            last, is_judged, since = None, False, []
        since.append(each)
        if each.gone or each.passed is None:
            if is_judged:
                yield flip(Kind.GONE, last, since, locks)
            is_judged = False
            if each.gone:
                last, since = None, []
            continue
        kind = kind_of(last, each) or (None if is_judged else Kind.NEW)
        if kind is not None:
            yield flip(kind, last, since, locks)
        last, is_judged, since = each, True, []


def is_asked_the_same(one: Entry, other: Entry) -> bool:
    """Whether to pass means the same: a misuse passes where the stack says so, all else where it trains."""
    return (one.role is Role.MISUSE) is (other.role is Role.MISUSE)


def kind_of(last: Entry | None, entry: Entry) -> Kind | None:
    """What became of a judged cell; None where nothing did, or where there is nothing to compare with."""
    if last is None:
        return None
    if last.passed is not entry.passed:
        return Kind.FIXED if entry.passed else Kind.REGRESSED
    if not entry.passed and (last.outcome, last.gradient) != (entry.outcome, entry.gradient):
        return Kind.BROKE_DIFFERENTLY
    return None


def regressions(entries: Iterable[Entry], locks: Locks) -> list[Regression]:
    """What fails at present and passed before its lock moved.

    A failure that came with another machine or a change of our own measurement alone, or with no change at all, is not
    the stack's.
    """
    found = [regression(each, locks) for each in by_cell(entries).values()]
    return sorted((each for each in found if each is not None), key=lambda each: each.now.cell)


def regression(entries: Sequence[Entry], locks: Locks) -> Regression | None:
    """The regression in which a cell is; None where it is in none."""
    now = entries[-1]
    if now.gone or now.passed is not False:
        return None
    judged = [
        place
        for place, each in enumerate(entries)
        if not each.gone and is_asked_the_same(each, now)
    ]
    passed = max((place for place in judged if entries[place].passed), default=None)
    if passed is None:
        return None
    before, since = entries[passed], entries[passed + 1 :]
    failed = [
        place - passed - 1 for place in judged if place > passed and entries[place].passed is False
    ]
    unmoved = [place for place in failed if since[place].lock == before.lock]

    def is_the_stack(place: int) -> bool:
        return place not in unmoved and not any(
            is_the_same_failure(since[each : place + 1]) for each in unmoved
        )

    if not is_the_stack(failed[-1]):
        return None
    first = next(place for place in failed if is_the_stack(place))
    return Regression(flip=flip(Kind.REGRESSED, before, since[: first + 1], locks), now=now)


def is_the_same_failure(entries: Sequence[Entry]) -> bool:
    """Whether the last of these fails as the first one does, with nothing changed in between but the lock."""
    one, other = entries[0], entries[-1]
    return (one.outcome, one.gradient, one.measured) == (
        other.outcome,
        other.gradient,
        other.measured,
    ) and {*changed_between(one, entries[1:])} <= {LOCK}


def flip(kind: Kind, before: Entry | None, since: Sequence[Entry], locks: Locks) -> Flip:
    """A change of verdict to the last of the entries ``since``, with the packages that moved on the way."""
    after = since[-1]
    if before is None:
        return Flip(kind=kind, before=None, after=after)
    changed = changed_between(before, since)
    if kind in OF_VERDICTS and LOCK not in changed and not set(changed).isdisjoint(MACHINE):
        kind = Kind.ELSEWHERE
    moved = packages_moved(
        locks.get((after.cell.stack, before.lock)), locks.get((after.cell.stack, after.lock))
    )
    return Flip(kind=kind, before=before, after=after, changed=changed, moved=moved)


def changed_between(before: Entry, since: Sequence[Entry]) -> tuple[str, ...]:
    """Names of the inputs that differ between an entry and the last of those ``since``.

    Lock and machine are told by these two: what moved and moved back is as it was. The rest is told by the entries on
    the way, but for what changed while the cell was gone.
    """
    after = since[-1]
    pairs = {LOCK: (before.lock, after.lock), "device": (before.device, after.device)}
    told = [name for each in since for name in each.changed if name not in pairs]
    if any(each.gone for each in since):
        pairs[MEASUREMENT] = before.measured, after.measured
        if before.build and after.build:
            pairs["build"] = before.build, after.build
    differing = [name for name, (one, other) in pairs.items() if one != other]
    return tuple(dict.fromkeys(differing + told))


def packages_moved(before: Locked | None, after: Locked | None) -> tuple[Moved, ...]:
    """What differs between two locks, Python first; nothing where a lock is not known."""
    if before is None or after is None or before == after:
        return ()
    python = moved({"python": before.python}, {"python": after.python})
    return python + moved(before.packages, after.packages)


def moved(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Moved, ...]:
    """The packages whose version differs, torch and its companions first."""
    names = sorted(
        {name for name, _ in before.items() ^ after.items()}, key=lambda name: (place(name), name)
    )
    return tuple(Moved(name=name, before=before.get(name), after=after.get(name)) for name in names)


def place(name: str) -> int:
    """Where a package stands among those that moved."""
    return FIRST.index(name) if name in FIRST else len(FIRST)


def reasons(flip: Flip) -> Iterator[str]:
    """What may have changed the verdict, the stack before our own measurement."""
    before, after = flip.before, flip.after
    if before is None or after.gone:
        return
    if LOCK in flip.changed:
        yield (
            f"The stack's lock moved: {listed(flip.moved)}."
            if flip.moved
            else "The stack's lock moved."
        )
    if "device" in flip.changed:
        yield f"It ran on another machine: {before.device or 'unknown'} → {after.device or 'unknown'}."
    if "build" in flip.changed:
        yield f"It ran on another build of torch: {before.build or 'unknown'} → {after.build or 'unknown'}."
    if flip.ours:
        yield f"Our own measurement changed: {', '.join(flip.ours)}."
    if not flip.changed and flip.kind is not Kind.NEW:
        yield "Nothing that the verdict depends on changed: the same inputs gave another one."


def listed(moved: Sequence[Moved]) -> str:
    """The first few packages that moved, and how many more."""
    more = f" and {len(moved) - SHOWN} more" if len(moved) > SHOWN else ""
    return ", ".join(map(str, moved[:SHOWN])) + more
