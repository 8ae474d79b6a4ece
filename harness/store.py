"""Records on disk: an append-only journal of this checkout, and the published records in ``results/``.

A line is appended and synced the moment a cell ends. Reading never fails on a line that a killed run left half
written: it is reported and skipped. The newest record of a cell is the cell.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from harness.disk import write_atomically
from harness.model import Cell, Record
from harness.observation import SCHEMA
from harness.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class _Version(msgspec.Struct):
    schema: int


@dataclass
class Store:
    """The records of one checkout. ``problems`` collects what could not be read, one sentence each."""

    journal: Path
    published: Path
    problems: list[str] = field(default_factory=list)
    _seen: dict[Path, tuple[tuple[int, int], list[Record]]] = field(default_factory=dict)
    """What a file held when it was last read, under its modification time and size."""

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
        return {(record.cell, record.key): record for record in self._read(self._file(self.journal, stack))}

    def everything(self) -> dict[Cell, Record]:
        """The newest record of each cell, published ones included."""
        files = sorted({*self.published.glob("*.jsonl"), *self.journal.glob("*.jsonl")})
        return newest((record for path in files for record in self._read(path)), keep_judged=True)

    def publish(self, records: Iterable[Record]) -> None:
        """Write one line per cell, in a stable order, to ``results/records/``: a night's change is a readable diff."""
        by_stack: dict[str, list[Record]] = {}
        for record in records:
            by_stack.setdefault(record.cell.stack, []).append(record)
        for stack, members in by_stack.items():
            lines = [encode(record) for record in sorted(members, key=lambda r: r.cell)]
            write_atomically(self._file(self.published, stack), b"".join(lines))

    def _file(self, folder: Path, stack: str) -> Path:
        return folder / f"{stack}.jsonl"

    def _read(self, path: Path) -> list[Record]:
        try:
            state = path.stat()
            stamp = state.st_mtime_ns, state.st_size
            if path in self._seen and self._seen[path][0] == stamp:
                return self._seen[path][1]
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        records: list[Record] = []
        for number, line in enumerate(lines, start=1):
            try:
                if line.strip():
                    records.append(decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                problem = f"{path.name}, line {number} was skipped: {error}"
                if problem not in self.problems:  # a file is read more than once
                    self.problems.append(problem)
        self._seen[path] = stamp, records
        return records


def encode(record: Record) -> bytes:
    """One record as one line."""
    return msgspec.json.encode(record) + b"\n"


def decode(line: bytes) -> Record:
    """One record; a MsgspecError that names the schema where it is of another version, or the outcome nobody knows."""
    try:
        record = msgspec.json.decode(line, type=Record)
    except msgspec.ValidationError as error:
        version = msgspec.json.decode(line, type=_Version).schema
        if version != SCHEMA:
            text = f"it has schema {version}, this release reads {SCHEMA}"
            raise msgspec.ValidationError(text) from error
        raise
    try:
        Outcome.parse(record.outcome)
    except ValueError as error:
        raise msgspec.ValidationError(f"the outcome {record.outcome!r} is unknown: {error}") from error
    return record


def newest(records: Iterable[Record], *, keep_judged: bool = False) -> dict[Cell, Record]:
    """The newest record of each cell; of two of the same moment the later line.

    With ``keep_judged`` a record that speaks of a machine only (it has no such device, no network) never hides
    one that speaks of the stack: who runs the matrix without a GPU keeps what one with a GPU has published.
    """
    found: dict[Cell, Record] = {}
    for record in sorted(records, key=lambda each: each.recorded_at):
        known = found.get(record.cell)
        if not (keep_judged and known is not None and known.observation is not None and _of_machine(record)):
            found[record.cell] = record
    return found


def _of_machine(record: Record) -> bool:
    return Outcome.parse(record.outcome).spurious or record.outcome == "setup:no-device"
