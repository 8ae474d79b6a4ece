"""The history of the matrix in ``results/history/``.

``STACK.jsonl`` has a line for each entry of a cell, ``locks/STACK.jsonl`` a line for each lock that
was ever published. Lines are only appended. A line that cannot be read is reported and skipped; a
file of another schema is refused. Publishing the same records twice appends nothing.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import decode_line, read_lines, write_atomically
from gradmatrix.core.observation import SCHEMA
from gradmatrix.core.outcomes import Outcome
from gradmatrix.judge import history
from gradmatrix.judge.history import Entry, Locked

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from pathlib import Path

    from gradmatrix.core.model import Cell, Lock, Record, Scenario
    from gradmatrix.judge.history import Flip, Regression

    Line = TypeVar("Line", Entry, Locked)

LATELY = dt.timedelta(hours=1)
"""Flips published within this time are one publication: a run publishes each stack separately."""


@dataclass(frozen=True)
class History:
    """What became of the cells."""

    entries: tuple[Entry, ...]
    """By stack, in the order of publication."""
    locks: dict[tuple[str, str], Locked]
    """By stack and digest."""
    problems: tuple[str, ...] = ()
    """What could not be read, one sentence each."""

    @cached_property
    def flips(self) -> tuple[Flip, ...]:
        """Every change of verdict, the oldest first."""
        return tuple(history.flips(self.entries, self.locks))

    @cached_property
    def regressions(self) -> tuple[Regression, ...]:
        """Cells that fail now and passed before their lock changed."""
        return tuple(history.regressions(self.entries, self.locks))

    def standing(
        self, stacks: Container[str], scenarios: Iterable[Scenario]
    ) -> tuple[Regression, ...]:
        """The regressions of cells that are still in the matrix: these stacks and scenarios."""
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
class Update:
    """What one publication of a stack added."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()
    """What could not be read of its history, one sentence each."""


def load(folder: Path, stacks: Iterable[str] | None = None) -> History:
    """The history of these stacks, or of all stacks; UserError if another release wrote it."""
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
    published_before: Iterable[Record] = (),
    complete: bool = True,
    now: dt.datetime | None = None,
) -> Update:
    """Append what changed in a stack since it was last published, and its lock if that is new.

    Call this before the records of the stack are written.

    Args:
        folder: the history
        lock: of the stack
        records: all records that are published of the stack, relations judged
        published_before: the records that were published last, as far as they can be read
        complete: whether all records could be read; if not, no cell counts as gone
        now: the moment of publication
    """
    problems: list[str] = []
    previous = history.newest(read_entries(folder, lock.stack, problems))
    locks = read(locks_path(folder, lock.stack), Locked, problems)
    found = history.changes(
        previous,
        records,
        before={record.cell: record for record in published_before},
        had={each.digest for each in locks},
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
    """The entries of a stack by time of publication; merged branches may have mixed the lines."""
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
    """Append lines in one step. An incomplete last line stays a line of its own."""
    content = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    if content:
        there = path.read_bytes() if path.exists() else b""
        end = b"\n" if there and not there.endswith(b"\n") else b""
        write_atomically(path, there + end + content)


def read(path: Path, kind: type[Line], problems: list[str]) -> list[Line]:
    """The lines of a file; none if there is no file.

    Args:
        path: the file
        kind: the type of a line
        problems: gets a sentence for each line that cannot be read

    Raises:
        UserError: if another release wrote a line
    """
    decoder = msgspec.json.Decoder(kind)
    found = []
    for line in read_lines(path, lambda content: decode_line(content, decoder, SCHEMA)):
        if line.other_schema:
            raise UserError(
                f"Another release wrote the history of {path.stem}: line {line.number}: "
                f"{line.problem}.",
                cause="this release does not append to a file that it cannot read",
                next_step=f"update this checkout, or move {path.name} away to start a new history",
            )
        if line.value is None:
            what = f"history of {path.stem}, line {line.number} was skipped: {line.problem}"
            problems.append(what)
        else:
            found.append(line.value)
    return found
