"""Pure: what became of a cell from one publication to the next, as entries of its history.

An entry is written when a cell is new or gone, when its verdict (outcome, gradient status, pass or fail) or its role
changed, and when the same verdict was reached with another lock or on another kind of machine: that is what a reader
asks, "and with the new release?". A change of our own code alone (observer, judge, scenario, steps) that leaves the
verdict as it was is not an entry: it touches every cell of every stack at once and says nothing about any of them. It
is still told apart from a moved lock, because what changed is found by comparing with the record that was published
last, not only with the last entry. What speaks of a machine (no such device, no network, a full disk) is never an
entry.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec

from gradmatrix.core.model import Cell, Gradient, Record, Role
from gradmatrix.core.observation import SCHEMA, Frozen
from gradmatrix.core.outcomes import LIMIT_OF, OF_THE_MACHINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gradmatrix.core.model import Lock

LOCK = "lock"
"""The input that says which packages there were: the stack is them, and nothing else."""
MACHINE = ("device", "build")
"""Inputs that say where it ran: the kind of machine, and the build of torch that it gets."""
LIMITS = frozenset(LIMIT_OF.values())
NOT_OURS = LIMITS | {LOCK, *MACHINE}
"""Inputs that are part of a verdict only where it says that one was met."""
MEASUREMENT = "measurement"
"""Stands for the inputs of ours that differ, where the record before is not there to tell which."""
DIGITS = 16
"""Of a lock's digest, as in the inputs of a record."""


class Entry(Frozen, frozen=True, omit_defaults=True):
    """One line of a cell's history."""

    schema: Literal[1]
    cell: Cell
    role: Role
    at: dt.datetime
    """When the cell ran; for one that is gone, when that was published."""
    published: dt.datetime
    run: str
    outcome: str
    passed: bool | None
    """None where it was not judged: the stack has no such feature."""
    key: str
    lock: str
    """The first digits of the lock's digest, as in the record's inputs."""
    device: str
    """The processor architecture or the GPU's name."""
    measured: str
    """Hash of our own part in the key: observer, judge, scenario, schema, steps, threads."""
    gradient: Gradient | None = None
    rate: float | None = None
    """Optimizer steps per second, the median of the timed steps; None where it does not train."""
    peak_memory_bytes: int | None = None
    build: str = ""
    changed: tuple[str, ...] = ()
    """Names of the inputs that differ from those of the record before; empty for a cell's first entry."""
    gone: bool = False
    """It left the matrix; the rest is what was last known of it."""


class Locked(Frozen, frozen=True):
    """A lock that was published: what is needed to say which packages moved."""

    schema: Literal[1]
    stack: str
    digest: str
    """Its first digits, as entries have them."""
    as_of: dt.date
    python: str
    packages: dict[str, str]
    """The version of every package."""


def changes(
    previous: Mapping[Cell, Entry],
    records: Iterable[Record],
    *,
    before: Callable[[Cell], Before | None],
    published: dt.datetime,
) -> list[Entry]:
    """The new entries of one stack, by cell: ``records`` are all that is published of it, relations judged.

    ``previous`` are the newest entries, ``before`` gives what was published of a cell last time. Where there is no
    record at all, nothing is gone.
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
        elif record.recorded_at >= known.at and differs(known, record):
            changed = changed_inputs(known, before(record.cell), record)
            found.append(entry(record, published, changed))
    if there:
        left = (each for cell, each in previous.items() if cell not in there and not each.gone)
        found += [
            msgspec.structs.replace(each, gone=True, at=published, published=published, changed=())
            for each in left
        ]
    return sorted(found, key=lambda each: each.cell)


class Before(msgspec.Struct, frozen=True):
    """What is read of a record that was published before."""

    cell: Cell
    key: str
    outcome: str
    inputs: dict[str, str] = {}
    build: str = ""


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
        lock=record.inputs.get("lock", ""),
        device=record.inputs.get("device", ""),
        build=record.build,
        measured=measurement(record.inputs),
        changed=changed,
    )


def measurement(inputs: Mapping[str, str]) -> str:
    """Our own part of the key, as a short hash."""
    return hashed(
        tuple(sorted((name, value) for name, value in inputs.items() if name not in NOT_OURS))
    )


@lru_cache(maxsize=1024)
def hashed(ours: tuple[tuple[str, str], ...]) -> str:
    """Its hash; the same for all cells of a scenario."""
    return hashlib.sha256(repr(list(ours)).encode()).hexdigest()[:8]


def differs(known: Entry, record: Record) -> bool:
    """Whether there is anything new to write of a cell."""
    return (
        known.outcome != record.outcome
        or known.gradient is not record.gradient
        or known.passed is not record.passed
        or known.role is not record.role
        or known.lock != record.inputs.get("lock", "")
        or known.device != record.inputs.get("device", "")
    )


def changed_inputs(known: Entry, before: Before | None, record: Record) -> tuple[str, ...]:
    """Names of the inputs that differ from those of the record before, or from what its entry knows of them."""
    if (
        before is None or before.key == record.key
    ):  # its records were lost, or published without a history
        pairs = {
            "lock": (known.lock, record.inputs.get("lock", "")),
            "device": (known.device, record.inputs.get("device", "")),
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
    """What is kept of a lock; None where the stack could not be resolved."""
    if lock.failure is not None:
        return None
    packages = {package.name: package.version for package in lock.packages}
    digest = lock.digest[:DIGITS]
    return Locked(
        schema=SCHEMA,
        stack=lock.stack,
        digest=digest,
        as_of=lock.as_of,
        python=lock.python,
        packages=packages,
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
