"""Records on disk: an append-only journal of this checkout, and the published records in ``results/``.

A line is appended and synced the moment a cell ends. Reading never fails on a line that a killed run left half
written: it is reported and skipped. The newest record of a cell is the cell.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import decode_line, read_lines, write_atomically
from gradmatrix.core.model import Cell, Record
from gradmatrix.core.observation import SCHEMA
from gradmatrix.core.outcomes import OF_THE_MACHINE, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


_DECODER = msgspec.json.Decoder(Record)


@dataclass(frozen=True)
class AsPublished:
    """A published file as it was read."""

    path: Path
    records: list[Record]
    damaged: list[bytes]
    """The lines that could not be read, or are of another stack."""


@dataclass
class Store:
    """The records of one checkout. ``problems`` collects what could not be read, one sentence each."""

    journal: Path
    published: Path
    problems: list[str] = field(default_factory=list)
    _seen: dict[Path, tuple[tuple[int, int], list[Record]]] = field(default_factory=dict)
    """What a file held when it was last read, under its modification time and size."""
    _foreign: dict[Path, str] = field(default_factory=dict)
    """The files that hold records of another schema, and which."""
    _as_published: AsPublished | None = None
    """The published file of the stack that was read last."""

    def append(self, record: Record) -> None:
        """Add one line to the journal of the record's stack; on disk when this returns."""
        self.journal.mkdir(parents=True, exist_ok=True)
        path = self._file(self.journal, record.cell.stack)
        line = encode(record)
        with path.open("a+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size and file.seek(size - 1) >= 0 and file.read(1) != b"\n":
                line = b"\n" + line  # a killed run left half a line
            while line:
                line = line[file.write(line) :]  # a nearly full disk takes a part
            os.fsync(file.fileno())

    def recorded_here(self, stack: str) -> dict[Cell, Record]:
        """The newest record of each cell of ``stack`` that this checkout ran."""
        return newest(self._read(self._file(self.journal, stack)))

    def recorded_under(self, stack: str) -> dict[tuple[Cell, str], Record]:
        """The newest record of each cell and key of ``stack`` that this checkout ran."""
        return {
            (record.cell, record.key): record
            for record in self._read(self._file(self.journal, stack))
        }

    def of_stack(self, stack: str) -> dict[Cell, Record]:
        """The newest record of each cell of ``stack``, published ones included; nothing of it is kept in memory."""
        path = self._file(self.published, stack)
        damaged: list[bytes] = []
        published = list(self._decoded(path, stack, damaged))
        self._as_published = AsPublished(path, published, damaged)
        return newest(
            chain(published, self._decoded(self._file(self.journal, stack), stack)),
            keep_judged=True,
        )

    def refuse_other_schema(self, stack: str) -> None:
        """UserError where the published file of ``stack`` has records of another schema; that it can be replaced."""
        path = self._file(self.published, stack)
        if self._as_published is None or self._as_published.path != path:
            self._read(path)
        if path in self._foreign:
            raise UserError(
                f"{path.name} cannot be published anew: {self._foreign[path]}.",
                cause="another release of gradmatrix wrote it, and to write the file anew would lose what it has",
                next_step="update this checkout, or move the file away",
            )

    @property
    def is_damaged(self) -> bool:
        """Whether the published file of the stack that was read last has lines that could not be read."""
        return self._as_published is not None and bool(self._as_published.damaged)

    def everything(self) -> dict[Cell, Record]:
        """The newest record of each cell, published ones included."""
        files = sorted({*self.published.glob("*.jsonl"), *self.journal.glob("*.jsonl")})
        return newest((record for path in files for record in self._read(path)), keep_judged=True)

    def publish(self, stack: str, records: Iterable[Record]) -> None:
        """Write one line per cell, in a stable order, to ``results/records/``: a night's change is a readable diff.

        UserError where this would drop records of another schema; a stack without records keeps its file, and a line
        that could not be read stays, at the end.
        """
        self.refuse_other_schema(stack)
        ordered = sorted(records, key=lambda record: record.cell)
        path, before = self._file(self.published, stack), self._as_published
        if before is None or before.path != path:
            before = AsPublished(path, [], [])
        if (
            ordered and before.records != ordered
        ):  # to compare is quick: mostly the very same objects
            damaged = (line + b"\n" for line in before.damaged)
            write_atomically(path, b"".join(chain(map(encode, ordered), damaged)))

    def _file(self, folder: Path, stack: str) -> Path:
        return folder / f"{stack}.jsonl"

    def _read(self, path: Path) -> list[Record]:
        """The records of a file, from memory where it did not change since it was last read."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return []
        stamp = status.st_mtime_ns, status.st_size
        if path not in self._seen or self._seen[path][0] != stamp:
            self._seen[path] = stamp, list(self._decoded(path))
        return self._seen[path][1]

    def _decoded(
        self, path: Path, stack: str | None = None, damaged: list[bytes] | None = None
    ) -> Iterator[Record]:
        """The records of a file, of ``stack`` alone; what cannot be read is a problem, and goes to ``damaged``."""
        for line in read_lines(path, decode):
            record, problem = line.value, line.problem
            if record is not None and stack in {None, record.cell.stack}:
                yield record
                continue
            if record is not None:
                problem = f"it is of the stack {record.cell.stack}"
            if line.other_schema:
                self._foreign[path] = f"line {line.number}: {problem}"
            self._report(f"{path.name}, line {line.number} was skipped: {problem}")
            if damaged is not None:
                damaged.append(line.content)

    def _report(self, problem: str) -> None:
        if problem not in self.problems:  # a file is read more than once
            self.problems.append(problem)


def encode(record: Record) -> bytes:
    """One record as one line."""
    return msgspec.json.encode(record) + b"\n"


def decode(line: bytes) -> Record:
    """One record.

    Raises:
        OtherSchema: if another release wrote it
        msgspec.MsgspecError, UnicodeDecodeError: if it cannot be read, or its outcome is unknown
    """
    record = decode_line(line, _DECODER, SCHEMA)
    why = unknown(record.outcome)
    if why is not None:
        raise msgspec.ValidationError(f"the outcome {record.outcome!r} is unknown: {why}")
    return record


@lru_cache(maxsize=1024)
def unknown(outcome: str) -> str | None:
    """Why nobody knows this outcome; None for one that is known. There are few of them, and many records."""
    try:
        Outcome(outcome)
    except ValueError as error:
        return str(error)
    return None


def newest(records: Iterable[Record], *, keep_judged: bool = False) -> dict[Cell, Record]:
    """The newest record of each cell; of two of the same moment the later line.

    With ``keep_judged`` a record that speaks of a machine only (it has no such device, no network) never hides
    one that speaks of the stack: who runs the matrix without a GPU keeps what one with a GPU has published. And a
    cell that was settled again without running, as it was before, keeps its record: its line would differ by a time.
    """
    found: dict[Cell, Record] = {}
    for record in sorted(records, key=lambda each: each.recorded_at):
        known = found.get(record.cell)
        if (
            not keep_judged
            or known is None
            or not (_hides_nothing(record, known) or _says_the_same(record, known))
        ):
            found[record.cell] = record
    return found


def _hides_nothing(record: Record, known: Record) -> bool:
    return known.observation is not None and record.outcome in OF_THE_MACHINE


def _says_the_same(record: Record, known: Record) -> bool:
    if record.observation is not None or known.observation is not None:
        return False
    return (record.key, record.outcome, record.message) == (known.key, known.outcome, known.message)
