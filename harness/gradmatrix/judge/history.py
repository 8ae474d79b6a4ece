"""The history of a cell: its entries, the changes of verdict between them, and what is regressed.

A publication adds an entry if a cell is new or gone, if its verdict (outcome, gradient status, pass
or fail) or its role changed, and if the same verdict was reached on another kind of machine. A
moved lock or a change of our own code (observer, judge, scenario, steps) that leaves the verdict as
it was adds none: it touches every cell and says nothing new about any of them. But the last lock
with which a verdict was seen must be known, to say which packages moved. So when the verdict
changes, an entry for that lock comes first; and a stack that goes back to a lock that it had adds
an entry too. To tell a moved lock from a change of our own, a record is compared with the record
that was published last, and not only with the last entry. An outcome that is about the machine only
(no such device, no network, a full disk) is never an entry.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec

from gradmatrix.core.model import Cell, Confirmed, Gradient, Moment, Record, Role
from gradmatrix.core.observation import SCHEMA, Frozen
from gradmatrix.core.outcomes import LIMIT_OF, OF_THE_MACHINE
from gradmatrix.core.text import few
from gradmatrix.judge.change import (
    LIMITS,
    LOCK,
    SAME_INPUTS,
    Change,
    Standing,
    attribute_change,
    change_between,
    explain_inputs,
    is_asked_the_same,
    is_same_failure,
    ours_of,
)
from gradmatrix.judge.versions import PackageMove, moves

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from gradmatrix.core.model import Lock

    Locks = Mapping[tuple[str, str], "Locked"]
    "The published locks, by stack and digest."

MEASUREMENT = "measurement"
"""Stands for all inputs of ours, if the record before is not there to say which of them differ."""
DIGITS = 16
"""Of a lock's digest, as in the inputs of a record."""
MOST_PACKAGES = 6
"""Packages that a sentence names."""


class Entry(Frozen, frozen=True, omit_defaults=True):
    """One line of a cell's history."""

    schema: Literal[1]
    cell: Cell
    role: Role
    at: Moment
    """When the cell ran; if it is gone, when that was published."""
    published: Moment
    run: str
    outcome: str
    passed: bool | None
    """None if it was not judged: the stack has no such feature."""
    key: str
    lock: str
    """The first digits of the lock's digest, as in the record's inputs."""
    device: str
    """The processor architecture or the GPU's name."""
    measured: str
    """Hash of our own part of the key: observer, judge, scenario, schema, steps, threads."""
    gradient: Gradient | None = None
    rate: float | None = None
    """Optimizer steps per second, the median of the timed steps; None if it does not train."""
    peak_memory_bytes: int | None = None
    build: str = ""
    changed: tuple[str, ...] = ()
    """Names of the inputs that differ from the record before; empty for a cell's first entry."""
    gone: bool = False
    """It left the matrix; the rest is what was last known of it."""

    @property
    def recorded_by(self) -> dt.datetime:
        """The latest time at which it can have been recorded: a clock may have been ahead."""
        return min(self.at, self.published)

    @property
    def standing(self) -> Standing:
        """What it says about the cell."""
        if self.gone or self.passed is None:
            return Standing.NOTHING
        return Standing.PASSED if self.passed else Standing.FAILED


class Locked(Frozen, frozen=True):
    """A published lock: what is needed to say which packages moved."""

    schema: Literal[1]
    stack: str
    digest: str
    """Its first digits, as entries have them."""
    as_of: dt.date
    python: str
    packages: dict[str, str]
    """The version of every package."""


class Flip(Frozen, frozen=True):
    """A change of verdict of one cell."""

    kind: Change
    before: Entry | None
    """None if there was none, or if the cell had left the matrix."""
    after: Entry
    changed: tuple[str, ...] = ()
    """Names of the inputs that changed between the two."""
    moved: tuple[PackageMove, ...] = ()
    """The packages that differ between the two locks, torch and its companions first."""

    @property
    def cell(self) -> Cell:
        """The cell whose verdict changed."""
        return self.after.cell

    @property
    def stack_moved(self) -> bool:
        """Its packages changed: the stack may be the reason."""
        return LOCK in self.changed

    @property
    def ours(self) -> tuple[str, ...]:
        """The inputs of our own measurement that changed: they may be the reason."""
        return ours_of(self.changed)

    @property
    def ours_alone(self) -> bool:
        """Only our own measurement changed: this says nothing about the stack."""
        return bool(self.changed) and self.ours == self.changed

    @property
    def why(self) -> str:
        """What may be the reason; empty if the cell is new or gone and nothing else is known."""
        return " ".join(sentences(self))


class Regression(Frozen, frozen=True):
    """A cell that fails now and passed before the stack moved."""

    flip: Flip
    """From the last entry that passed to the first later failure that the stack may have caused."""
    now: Entry

    @property
    def silent(self) -> bool:
        """A mistake that the stack used to report and now accepts in silence."""
        return self.now.role is Role.MISUSE


def changes(
    previous: Mapping[Cell, Entry],
    records: Iterable[Record],
    *,
    before: Mapping[Cell, Record],
    had: Container[str] = (),
    published: dt.datetime,
) -> list[Entry]:
    """The new entries of one stack, sorted by cell.

    Args:
        previous: the newest entry of each cell.
        records: all that is published of the stack, with relations judged. If there are none,
            no cell is gone.
        before: what was published of each cell last time.
        had: the first digits of the locks that the stack had until then.
        published: the time of this publication.
    """
    published = published.replace(microsecond=0)
    found: list[Entry] = []
    there = set()
    for record in records:
        there.add(record.cell)
        if record.outcome in OF_THE_MACHINE:
            continue
        known = previous.get(record.cell)
        if known is None or known.gone:
            found.append(entry(record, published))
            continue
        last = before.get(record.cell)
        if record.known_at < known.recorded_by:
            continue
        if differs(known, record):
            if last is not None and is_confirmed(known, last):
                known = confirmed(known, last, published)
                found.append(known)
            found.append(entry(record, published, changed_since(known, last, record)))
        elif record.lock in had and record.lock != (last or known).lock:
            found.append(entry(record, published, changed_since(known, last, record)))
    if there:
        left = (each for cell, each in previous.items() if cell not in there and not each.gone)
        found += [
            msgspec.structs.replace(each, gone=True, at=published, published=published, changed=())
            for each in left
        ]
    return sorted(found, key=lambda each: each.cell)


def entry(record: Record, published: dt.datetime, changed: tuple[str, ...] = ()) -> Entry:
    """The entry of a record."""
    seen, rate = record.observation, record.steps_per_s
    return Entry(
        schema=SCHEMA,
        cell=record.cell,
        role=record.role,
        at=record.recorded_at.replace(microsecond=0),
        published=published,
        run=record.run,
        outcome=record.outcome,
        passed=record.passed,
        gradient=record.gradient,
        rate=float(f"{rate.median:.4g}") if rate is not None else None,
        peak_memory_bytes=None if seen is None else seen.peak_memory_bytes,
        key=record.key,
        lock=record.lock,
        device=record.device,
        build=record.build,
        measured=measurement(record.inputs),
        changed=changed,
    )


def measurement(inputs: Mapping[str, str]) -> str:
    """A short hash of our own part of the key."""
    return hashed(tuple(sorted([(n, inputs[n]) for n in ours_of(inputs) if n not in LIMITS])))


@lru_cache(maxsize=1024)
def hashed(ours: tuple[tuple[str, str], ...]) -> str:
    """The hash of these inputs; all cells of a scenario have the same ones."""
    return hashlib.sha256(repr(list(ours)).encode()).hexdigest()[:8]


def differs(known: Entry, record: Record) -> bool:
    """Whether a record says something that the newest entry of its cell does not."""
    names = ("outcome", "gradient", "passed", "role", "device")
    return any(getattr(known, name) != getattr(record, name) for name in names)


def is_confirmed(known: Entry, last: Record) -> bool:
    """Whether the record that was published last says what the entry says, of a later lock."""
    return last.lock != known.lock and not differs(known, last)


def confirmed(known: Entry, last: Record, published: dt.datetime) -> Entry:
    """The entry of a verdict that held until now: with which lock it was seen last."""
    seen = entry(last, published, changed_since(known, None, last))
    if not isinstance(last, Confirmed):
        return seen
    at, run = last.confirmed_at.replace(microsecond=0), last.confirmed_by
    return msgspec.structs.replace(seen, at=at, run=run, rate=None, peak_memory_bytes=None)


def changed_since(known: Entry, before: Record | None, record: Record) -> tuple[str, ...]:
    """Names of the inputs that differ from the record before, or from its entry."""
    if before is None or before.key == record.key:
        # The record before is lost, or was published without a history.
        pairs = {
            "lock": (known.lock, record.lock),
            "device": (known.device, record.device),
            MEASUREMENT: (known.measured, measurement(record.inputs)),
            "build": (known.build, record.build),
        }
    else:
        names = dict.fromkeys([*record.inputs, *before.inputs])
        met = {LIMIT_OF.get(before.outcome), LIMIT_OF.get(record.outcome)}
        pairs = {
            name: (before.inputs.get(name, ""), record.inputs.get(name, ""))
            for name in names
            if name not in LIMITS or name in met
        }
        pairs["build"] = (before.build, record.build)
    if not all(pairs["build"]):
        del pairs["build"]  # one of the two ran nothing
    return tuple(name for name, (one, other) in pairs.items() if one != other)


def locked(lock: Lock) -> Locked | None:
    """What is kept of a lock; None if the stack could not be resolved."""
    if lock.failure is not None:
        return None
    return Locked(
        schema=SCHEMA,
        stack=lock.stack,
        digest=lock.digest[:DIGITS],
        as_of=lock.as_of,
        python=lock.python,
        packages={package.name: package.version for package in lock.packages},
    )


def newest(entries: Iterable[Entry]) -> dict[Cell, Entry]:
    """The newest entry of each cell; ``entries`` are in the order in which they were written."""
    return {each.cell: each for each in entries}


def by_cell(entries: Iterable[Entry]) -> dict[Cell, list[Entry]]:
    """The entries of each cell, in the order in which they were written."""
    found: dict[Cell, list[Entry]] = defaultdict(list)
    for each in entries:
        found[each.cell].append(each)
    return found


def flips(entries: Iterable[Entry], locks: Locks) -> list[Flip]:
    """Every change of verdict, by publication and then by cell."""
    found = [flip for each in by_cell(entries).values() for flip in flips_of_cell(each, locks)]
    return sorted(found, key=lambda flip: (flip.after.published, flip.after.cell))


def flips_of_cell(entries: Iterable[Entry], locks: Locks) -> Iterator[Flip]:
    """The changes of verdict of a cell; a verdict is compared with the last verdict before it."""
    last: Entry | None = None
    is_judged = False
    since: list[Entry] = []
    for each in entries:
        if last is not None and not is_asked_the_same(last, each):
            last, is_judged, since = None, False, []
        since.append(each)
        change = change_from(last, each)
        if change is Change.UNCHANGED:
            change = None if is_judged else Change.NEW
        elif change is Change.GONE and not is_judged:
            change = None
        if change is not None:
            yield flip(change, last, since, locks)
        is_judged = each.standing is not Standing.NOTHING
        if is_judged:
            last, since = each, []
        elif each.gone:
            last, since = None, []


def change_from(last: Entry | None, entry: Entry) -> Change | None:
    """What became of a cell since it was judged last; ``last`` is None if it never was."""
    if last is None:
        return change_between(Standing.MISSING, entry.standing)
    same = is_same_failure(last, entry)
    return change_between(last.standing, entry.standing, same_failure=same)


def regressions(entries: Iterable[Entry], locks: Locks) -> list[Regression]:
    """What fails now and passed before its lock moved, sorted by cell.

    A failure that came only with another machine, a change of our own measurement, or no change at
    all is not the stack's.
    """
    found = [regression(each, locks) for each in by_cell(entries).values()]
    return sorted((each for each in found if each is not None), key=lambda each: each.now.cell)


def regression(entries: Sequence[Entry], locks: Locks) -> Regression | None:
    """The regression of a cell; None if it is not regressed."""
    now = entries[-1]
    if now.gone or now.passed is not False:
        return None
    judged = [
        number
        for number, each in enumerate(entries)
        if not each.gone and is_asked_the_same(each, now)
    ]
    passed = max((number for number in judged if entries[number].passed), default=None)
    if passed is None:
        return None
    before, since = entries[passed], entries[passed + 1 :]
    later = [number - passed - 1 for number in judged if number > passed]
    failed = [number for number in later if since[number].passed is False]
    unmoved = [number for number in failed if since[number].lock == before.lock]

    def is_the_stack(number: int) -> bool:
        return number not in unmoved and not any(
            fails_the_same(since[each : number + 1]) for each in unmoved
        )

    if not is_the_stack(failed[-1]):
        return None
    first = next(number for number in failed if is_the_stack(number))
    return Regression(flip=flip(Change.REGRESSED, before, since[: first + 1], locks), now=now)


def fails_the_same(entries: Sequence[Entry]) -> bool:
    """Whether the last of these fails as the first one does, and only the lock changed."""
    one, other = entries[0], entries[-1]
    if not is_same_failure(one, other) or one.measured != other.measured:
        return False
    return {*changed_between(one, entries[1:])} <= {LOCK}


def flip(kind: Change, before: Entry | None, since: Sequence[Entry], locks: Locks) -> Flip:
    """A change of verdict from ``before`` to the last of ``since``."""
    after = since[-1]
    if before is None:
        return Flip(kind=kind, before=None, after=after)
    changed = changed_between(before, since)
    stack = after.cell.stack
    moved = moved_packages(locks.get((stack, before.lock)), locks.get((stack, after.lock)))
    kind = attribute_change(kind, changed)
    return Flip(kind=kind, before=before, after=after, changed=changed, moved=moved)


def changed_between(before: Entry, since: Sequence[Entry]) -> tuple[str, ...]:
    """Names of the inputs that differ between an entry and the last of those ``since``.

    Lock and machine are compared directly, so what changed and changed back is as it was. The
    other inputs are those that the entries between name; if the cell was gone in between, our own
    measurement and the build are compared directly too.
    """
    after = since[-1]
    pairs = {LOCK: (before.lock, after.lock), "device": (before.device, after.device)}
    named = [name for each in since for name in each.changed if name not in pairs]
    if any(each.gone for each in since):
        pairs[MEASUREMENT] = before.measured, after.measured
        if before.build and after.build:
            pairs["build"] = before.build, after.build
    differing = [name for name, (one, other) in pairs.items() if one != other]
    return tuple(dict.fromkeys(differing + named))


def moved_packages(before: Locked | None, after: Locked | None) -> tuple[PackageMove, ...]:
    """What differs between two locks, Python first; nothing if a lock is not known."""
    if before is None or after is None:
        return ()
    one, other = ({"python": lock.python, **lock.packages} for lock in (before, after))
    return moves(one, other)


def sentences(flip: Flip) -> Iterator[str]:
    """What may have changed the verdict: the stack first, then the machine and our measurement."""
    if flip.before is None or flip.after.gone:
        return
    if flip.stack_moved:
        names = few(list(map(str, flip.moved)), MOST_PACKAGES)
        yield f"The stack's lock moved{': ' * bool(names)}{names}."
    yield from explain_inputs(flip.changed, flip.before, flip.after)
    if not flip.changed and flip.kind is not Change.NEW:
        yield SAME_INPUTS
