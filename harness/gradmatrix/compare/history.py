"""The history of the matrix on disk: ``results/history/``, append-only, a file per stack and one for its locks.

``STACK.jsonl`` has a line per entry of a cell (see ``judge.history``), ``locks/STACK.jsonl`` one per lock that was ever
published. What is there is never rewritten; a line that cannot be read is reported and skipped; a file of another
schema is refused. Publishing the same records twice appends nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import write_atomically
from gradmatrix.core.observation import SCHEMA
from gradmatrix.core.outcomes import Outcome
from gradmatrix.judge import history
from gradmatrix.judge.history import Before, Entry, Locked

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from pathlib import Path

    from gradmatrix.core.model import Cell, Lock, Record, Scenario
    from gradmatrix.judge.history import Flip, Regression

    Line = TypeVar("Line", Entry, Locked)

LATELY = dt.timedelta(hours=1)
"""Flips that were published within it are one publication: a run publishes each stack when it is done."""


@dataclass(frozen=True)
class History:
    """All that became of the cells."""

    entries: tuple[Entry, ...]
    """By stack, and within it in the order in which they were published."""
    locks: dict[tuple[str, str], Locked]
    """By stack and digest, as entries have it."""
    problems: tuple[str, ...] = ()
    """What could not be read, one sentence each."""

    @cached_property
    def flips(self) -> tuple[Flip, ...]:
        """Every change of verdict, the oldest first."""
        return tuple(history.flips(self.entries, self.locks))

    @cached_property
    def regressions(self) -> tuple[Regression, ...]:
        """What fails at present and passed before its lock moved, by cell."""
        return tuple(history.regressions(self.entries, self.locks))

    def standing(
        self, stacks: Container[str], scenarios: Iterable[Scenario]
    ) -> tuple[Regression, ...]:
        """The regressions of cells that are part of the matrix: of these stacks, and of variants of these scenarios."""
        variants = {
            (scenario.name, variant.name) for scenario in scenarios for variant in scenario.variants
        }
        cells = ((each, each.now.cell) for each in self.regressions)
        return tuple(
            each
            for each, cell in cells
            if cell.stack in stacks and (cell.scenario, cell.variant) in variants
        )

    def latest_changes(self) -> tuple[Flip, ...]:
        """The flips of the newest publication that changed a verdict."""
        if not self.flips:
            return ()
        since = self.flips[-1].after.published - LATELY
        return tuple(flip for flip in self.flips if flip.after.published > since)

    def of(self, cell: Cell) -> list[Entry]:
        """The entries of one cell, the oldest first."""
        return [each for each in self.entries if each.cell == cell]


@dataclass(frozen=True)
class Previously:
    """The records of a stack as they were published last, read when one is asked for."""

    path: Path | None

    def get(self, cell: Cell) -> Before | None:
        """The record of a cell; None where there was none, or it cannot be read."""
        return self._records.get(cell)

    @cached_property
    def _records(self) -> dict[Cell, Before]:
        if self.path is None or not self.path.exists():
            return {}
        found = {}
        for line in self.path.read_bytes().splitlines():
            with contextlib.suppress(
                msgspec.MsgspecError, UnicodeDecodeError
            ):  # the store has reported it
                record = msgspec.json.decode(line, type=Before)
                found[record.cell] = record
        return found


@dataclass(frozen=True)
class Update:
    """What one publication of a stack added."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()
    """What could not be read of its history, one sentence each."""


def load(folder: Path, stacks: Iterable[str] | None = None) -> History:
    """The history of the named stacks, or of all; UserError for a file of another schema."""
    names = sorted(path.stem for path in folder.glob("*.jsonl")) if stacks is None else stacks
    problems: list[str] = []
    entries: list[Entry] = []
    locks: dict[tuple[str, str], Locked] = {}
    for name in names:
        entries += read_entries(folder, name, problems)
        locks |= {
            (each.stack, each.digest): each
            for each in read(locks_path(folder, name), Locked, problems)
        }
    return History(tuple(entries), locks, tuple(problems))


def update(
    folder: Path,
    lock: Lock,
    records: Iterable[Record],
    *,
    published_before: Path | None = None,
    complete: bool = True,
    now: dt.datetime | None = None,
) -> Update:
    """Append what changed of one stack since it was last published, and its lock where that is new.

    ``records`` are all that is published of the stack, relations judged. ``published_before`` is its file in
    ``results/records/`` as the last publication left it: call this before that file is written anew. It is read only
    where something changed. Where the records are not ``complete``, since some could not be read, none is gone.
    """
    problems: list[str] = []
    previous = history.newest(read_entries(folder, lock.stack, problems))
    locks = read(locks_path(folder, lock.stack), Locked, problems)
    found = history.changes(
        previous,
        records,
        before=Previously(published_before).get,
        published=now or dt.datetime.now(dt.UTC),
    )
    found = [each for each in found if complete or not each.gone]
    known = history.locked(lock)
    if known is not None and known.digest not in {each.digest for each in locks}:
        append(locks_path(folder, lock.stack), [known])
    append(entries_path(folder, lock.stack), found)
    return Update(tuple(found), tuple(problems))


def entries_path(folder: Path, stack: str) -> Path:
    """The history of a stack's cells."""
    return folder / f"{stack}.jsonl"


def locks_path(folder: Path, stack: str) -> Path:
    """The locks of a stack that were published."""
    return folder / "locks" / f"{stack}.jsonl"


def read_entries(folder: Path, stack: str, problems: list[str]) -> list[Entry]:
    """The entries of a stack in the order of publication, also where two branches of a repository were merged."""
    entries = read(entries_path(folder, stack), Entry, problems)
    unknown = {outcome for outcome in {each.outcome for each in entries} if not is_known(outcome)}
    problems += [
        f"history of {stack}: entries with the unknown outcome {word!r} were skipped"
        for word in unknown
    ]
    return sorted(
        (each for each in entries if each.outcome not in unknown), key=lambda each: each.published
    )


def is_known(outcome: str) -> bool:
    """Whether this release knows the outcome."""
    try:
        Outcome(outcome)
    except ValueError:
        return False
    return True


def append(path: Path, lines: Iterable[Line]) -> None:
    """Add lines to a file in one step; half a line that something left there stays one of its own."""
    content = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    if content:
        there = path.read_bytes() if path.exists() else b""
        end = b"\n" if there and not there.endswith(b"\n") else b""
        write_atomically(path, there + end + content)


def read(path: Path, kind: type[Line], problems: list[str]) -> list[Line]:
    """The lines of a file; none where there is no file. UserError for another schema."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    try:
        return msgspec.json.Decoder(kind).decode_lines(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return one_by_one(path, content, kind, problems)


def one_by_one(path: Path, content: bytes, kind: type[Line], problems: list[str]) -> list[Line]:
    """The lines that can be read; the others are problems."""
    decoder = msgspec.json.Decoder(kind)
    found = []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            refuse_other_schema(path, number, line)
            problems.append(f"history of {path.stem}, line {number} was skipped: {error}")
    return found


class _Version(msgspec.Struct):
    schema: int


def refuse_other_schema(path: Path, number: int, line: bytes) -> None:
    """UserError where another release wrote the line; nothing has been touched then."""
    try:
        schema = msgspec.json.decode(line, type=_Version).schema
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    if schema != SCHEMA:
        raise UserError(
            f"The history of {path.stem} is of another release: line {number} has schema {schema}.",
            cause=f"this release reads schema {SCHEMA}, and appends to no file that it cannot read",
            next_step=f"update this checkout, or move {path.name} away to begin a history anew",
        )
