"""Records on disk: the journal of this checkout, and the published records in ``results/``.

A record is appended to the journal and synced as soon as its cell ends. A line that cannot be read,
for example because a run was killed while it wrote, is reported and skipped. Of several records of
a cell the last line of the journal counts.
"""

from __future__ import annotations

import datetime as dt
import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import decode_line, held, read_lines, write_atomically
from gradmatrix.core.model import Cell, Record
from gradmatrix.core.observation import SCHEMA
from gradmatrix.core.outcomes import OF_THE_MACHINE, Outcome
from gradmatrix.run import confirmed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path


_DECODER = msgspec.json.Decoder(Record)


@dataclass(frozen=True)
class AsPublished:
    """The content of a published file."""

    path: Path
    records: list[Record]
    lines: list[bytes]
    """The line of each record."""
    damaged: list[bytes]
    """The lines that could not be read, or belong to another stack."""

    def lines_of(self, records: Iterable[Record]) -> Iterator[bytes]:
        """Yield the line of each record. A record that stands keeps its line to the letter.

        An older release may have written it without the fields that are new since.
        """
        there = zip(map(confirmed.as_recorded, self.records), self.lines, strict=True)
        known = {record.cell: (record, line) for record, line in there}
        for record in map(confirmed.as_recorded, records):
            before, line = known.get(record.cell, (None, b""))
            yield line if record == before else encode(record).rstrip()


@dataclass
class Store:
    """The records of one checkout. ``problems`` has a sentence for each line that was skipped."""

    journal: Path
    published: Path
    problems: list[str] = field(default_factory=list)
    _seen: dict[Path, tuple[tuple[int, ...], list[Record]]] = field(default_factory=dict)
    """The records of each file that was read, with its modification time and size then."""
    _foreign: dict[Path, str] = field(default_factory=dict)
    """The files with records of another schema, and what was found."""
    _as_published: AsPublished | None = None
    """The published file of the stack that was read last."""

    @property
    def as_published(self) -> Sequence[Record]:
        """The records in the published file of the stack that was read last."""
        return [] if self._as_published is None else self._as_published.records

    def append(self, record: Record) -> None:
        """Add a line to the journal of the record's stack. It is on disk when this returns."""
        self.journal.mkdir(parents=True, exist_ok=True)
        path = self._file(self.journal, record.cell.stack)
        line = encode(record)
        with path.open("a+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size and file.seek(size - 1) >= 0 and file.read(1) != b"\n":
                line = b"\n" + line  # a killed run left half a line
            while line:
                line = line[file.write(line) :]  # a nearly full disk may take only a part
            os.fsync(file.fileno())

    def in_use(
        self, stack: str, waiting: Callable[[], object] = lambda: None
    ) -> AbstractContextManager[None]:
        """Hold the journal of ``stack``: a second run with this results folder waits."""
        self.journal.mkdir(parents=True, exist_ok=True)
        return held(self.journal / f".{stack}.lock", waiting)

    def take(self, stack: str, records: Iterable[Record]) -> int:
        """Add records of ``stack`` from another machine to the journal in one step.

        Only those are added that are new, or newer than the one with the same key. Each gets the
        place that ``in_order`` gives it. Returns how many were added.
        """
        path = self._file(self.journal, stack)
        journal = self._read(path)
        under = self.recorded_under(stack)
        new = [
            record
            for record in sorted(records, key=lambda each: (each.recorded_at, each.cell))
            if (record.cell, record.key) not in under
            or under[record.cell, record.key].recorded_at < record.recorded_at
        ]
        if new:
            before = path.read_bytes() if path.exists() else b""
            if before and not before.endswith(b"\n"):
                before += b"\n"  # a killed run left half a line
            is_newer = newer_than(journal)
            older = (encode(record) for record in new if not is_newer(record))
            newer = (encode(record) for record in new if is_newer(record))
            write_atomically(path, b"".join([*older, before, *newer]))
        return len(new)

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
        """The newest record of each cell of ``stack``, published or not; not kept in memory."""
        path = self._file(self.published, stack)
        lines: list[bytes] = []
        damaged: list[bytes] = []
        published = list(self._decoded(path, stack, lines, damaged))
        self._as_published = AsPublished(path, published, lines, damaged)
        journal = list(self._decoded(self._file(self.journal, stack), stack))
        return newest(in_order(published, journal), keep_judged=True)

    def refuse_other_schema(self, stack: str) -> None:
        """UserError if the published file of ``stack`` has records of another schema."""
        path = self._file(self.published, stack)
        if self._as_published is None or self._as_published.path != path:
            self._read(path)
        if path in self._foreign:
            raise UserError(
                f"{path.name} cannot be published again: {self._foreign[path]}.",
                cause="another release of gradmatrix wrote these records, "
                "and publishing would delete them",
                next_step="update this checkout, or move the file away",
            )

    @property
    def is_damaged(self) -> bool:
        """Whether the published file that was read last has lines that could not be read."""
        return self._as_published is not None and bool(self._as_published.damaged)

    @property
    def stacks(self) -> set[str]:
        """The stacks that have records, published or not."""
        folders = (self.published, self.journal)
        return {path.stem for folder in folders for path in folder.glob("*.jsonl")}

    def everything(self) -> dict[Cell, Record]:
        """The newest record of each cell of every stack, published or not."""
        found = (
            in_order(
                self._read(self._file(self.published, stack)),
                self._read(self._file(self.journal, stack)),
            )
            for stack in sorted(self.stacks)
        )
        return newest(chain.from_iterable(found), keep_judged=True)

    def publish(self, stack: str, records: Iterable[Record]) -> None:
        """Write one line for each cell to ``results/records/``, and which of them are confirmed.

        The order is stable, so that differences are short. A stack without records keeps its file.
        Lines that could not be read are kept at its end.

        Raises:
            UserError: if this would delete records of another schema.
        """
        self.refuse_other_schema(stack)
        ordered = sorted(records, key=lambda record: record.cell)
        path, before = self._file(self.published, stack), self._as_published
        if before is None or before.path != path:
            before = AsPublished(path, [], [], [])
        if ordered and before.records != ordered:  # quick: these are mostly the same objects
            lines = (each + b"\n" for each in chain(before.lines_of(ordered), before.damaged))
            write_atomically(path, b"".join(lines))
            confirmed.write(confirmed.path_of(self.published, stack), stack, ordered)

    def _file(self, folder: Path, stack: str) -> Path:
        return folder / f"{stack}.jsonl"

    def _read(self, path: Path) -> list[Record]:
        """The records of a file; from memory if the file has not changed since it was last read."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return []
        stamp: tuple[int, ...] = status.st_mtime_ns, status.st_size
        if path.parent == self.published:
            with suppress(FileNotFoundError):
                status = confirmed.path_of(path.parent, path.stem).stat()
                stamp += status.st_mtime_ns, status.st_size
        if path not in self._seen or self._seen[path][0] != stamp:
            self._seen[path] = stamp, list(self._decoded(path))
        return self._seen[path][1]

    def _decoded(
        self,
        path: Path,
        stack: str | None = None,
        lines: list[bytes] | None = None,
        damaged: list[bytes] | None = None,
    ) -> Iterator[Record]:
        """The records of a file.

        Args:
            path: The file.
            stack: If given, a record of another stack counts as a line that cannot be read.
            lines: Gets the line of each record.
            damaged: Gets the lines that cannot be read. Each is also added to ``problems``.
        """
        found = {}
        if path.parent == self.published:
            found = confirmed.load(confirmed.path_of(path.parent, path.stem))
        for line in read_lines(path, decode):
            record, problem = line.value, line.problem
            if record is not None and stack in {None, record.cell.stack}:
                if lines is not None:
                    lines.append(line.content)
                yield confirmed.applied(record, found.get(record.cell))
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
    return msgspec.json.encode(confirmed.as_it_counts(record)) + b"\n"


def decode(line: bytes) -> Record:
    """One record.

    Raises:
        OtherSchema: if another release wrote it
        one of NOT_READABLE: if it cannot be read, or its outcome is unknown
    """
    record = decode_line(line, _DECODER, SCHEMA)
    why = unknown(record.outcome)
    if why is not None:
        raise msgspec.ValidationError(f"the outcome {record.outcome!r} is unknown: {why}")
    return record


@lru_cache(maxsize=1024)
def unknown(outcome: str) -> str | None:
    """Why this release does not know the outcome; None if it does. Cached: outcomes are few."""
    try:
        Outcome(outcome)
    except ValueError as error:
        return str(error)
    return None


def newest(records: Iterable[Record], *, keep_judged: bool = False) -> dict[Cell, Record]:
    """The newest record of each cell: the last one, for ``records`` in the order of writing.

    With ``keep_judged``, an older record is kept in two cases. Either it has an observation, and
    the newer one says something about the machine only: a machine without a GPU keeps what one with
    a GPU has published. Or both say the same of a cell that did not run, and only the time differs.
    """
    found: dict[Cell, Record] = {}
    for record in records:
        known = found.get(record.cell)
        if not (keep_judged and known is not None and _adds_nothing(record, known)):
            found[record.cell] = record
    return found


def in_order(others: Iterable[Record], journal: Sequence[Record]) -> Iterator[Record]:
    """Records of another source and those of a journal, in the order that ``newest`` needs."""
    is_newer = newer_than(journal)
    later = []
    for record in others:
        if is_newer(record):
            later.append(record)
        else:
            yield record
    yield from journal
    yield from later


def newer_than(journal: Iterable[Record]) -> Callable[[Record], bool]:
    """Whether a record of another source is newer than what a journal has of its cell.

    It is if its verdict was seen later. Dates in the future do not count. Within the journal the
    order of the lines counts, so that a clock which was once ahead hides nothing.
    """
    now = dt.datetime.now(dt.UTC)
    ran, last = set(), {}
    for record in journal:
        ran.add(record.cell)
        if record.recorded_at <= now:
            last[record.cell] = record.recorded_at

    def is_newer(record: Record) -> bool:
        if record.cell not in ran:
            return True
        known = last.get(record.cell)
        return known is not None and known < record.known_at <= now

    return is_newer


def _adds_nothing(record: Record, known: Record) -> bool:
    """Whether a newer record says nothing new about the stack."""
    if known.observation is not None:
        return record.outcome in OF_THE_MACHINE
    before = (known.key, known.outcome, known.message)
    return record.observation is None and before == (record.key, record.outcome, record.message)
