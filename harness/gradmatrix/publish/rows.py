"""The matrix as rows: a row is one published cell, without the observations that fill its record.

``Table`` is what every format and page is made from: the locks, the scenarios and the rows, in a
stable order. ``Grid`` is a part of it in words, with a column for each stack. Whole records are in
``results/records/``.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from gradmatrix.core.model import Cell, Confirmed, Gradient, Role
from gradmatrix.core.observation import Frame, Frozen, Rate
from gradmatrix.core.outcomes import DISAGREES, NO_DEVICE, TRAINS, Phase, gradient_note, phase_of
from gradmatrix.judge.causes import explain, on_stack, remedy_for
from gradmatrix.judge.change import count_outcomes
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.run.plan import lock_input
from gradmatrix.run.stack import MESSAGE_LIMIT, RESOLVERS_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gradmatrix.core.model import Lock, Record, Scenario
    from gradmatrix.core.observation import Observation
    from gradmatrix.judge.causes import Cause, OnStack, Remedy
    from gradmatrix.judge.edge import Flips, Turning
    from gradmatrix.publish.speed import Runs


NEVER = dt.datetime.min.replace(tzinfo=dt.UTC)
WARNING_LIMIT = 300
"""The most characters of a warning that are published. The record has all of it."""
DIGITS = 2
"""Significant digits of a rate in a table. The next one is noise: every run would change it."""
MEASURED = {"recorded_at": NEVER, "steps_per_s": None, "peak_memory_bytes": None}
"""The fields of a row that depend on when and where it ran."""
SYMBOLS = {True: "✓", False: "✗", None: "–"}
WITHOUT_A_WORD = frozenset({Phase.RESOLVE, Phase.INSTALL, Phase.IMPORT, Phase.PROCESS})
"""Failures in these phases do not show whether the stack would have reported a misuse."""


class Explained(Frozen, frozen=True):
    """Why a cell does not train."""

    cause: str
    module: str | None
    place: Frame | None
    """The responsible line of code; ``diagnosis.format_frame`` has it as text."""
    text: tuple[str, ...]
    """Two to six lines. The last one says what to do."""
    remedy: str | None
    """``SCENARIO/VARIANT`` that trains on the same stack."""


class Row(Frozen, frozen=True):
    """One cell of the published matrix."""

    stack: str
    scenario: str
    variant: str
    role: Role
    device: str
    outcome: str
    passed: bool | None
    """None if it was not judged: the stack lacks the feature, or the machine the device."""
    gradient: Gradient | None
    steps_per_s: Rate | None
    peak_memory_bytes: int | None
    message: str
    raised: str | None
    """The type of the exception that ended the cell."""
    warnings: tuple[str, ...]
    """The first line of each distinct warning."""
    diagnosis: Explained | None
    flaky: str
    """How often each outcome came with this key; empty if there is only one."""
    recorded_at: dt.datetime
    key: str
    """Hash of everything that the verdict depended on when it was recorded."""

    @property
    def cell(self) -> Cell:
        """The cell of this row."""
        return Cell(
            stack=self.stack, scenario=self.scenario, variant=self.variant, device=self.device
        )


def rows_of(records: Iterable[Record], scenarios: Mapping[str, Scenario]) -> Iterator[Row]:
    """Yield the row of each record.

    ``records`` must be complete for each stack, because a remedy is a variant that trains on the
    same stack.
    """
    records = list(records)
    remedies = Remedies(scenarios, records)
    for record in records:
        yield row_of(record, remedies)


def without_measurements(row: Row) -> Row:
    """Return a row without what depends on when and where it ran; its warnings sorted."""
    return replace(row, key="", warnings=tuple(sorted(row.warnings)), **MEASURED)


class Remedies:
    """The variants that train on each stack. Each remedy is searched once."""

    def __init__(self, scenarios: Mapping[str, Scenario], records: Iterable[Record]) -> None:
        self._scenarios = scenarios
        self._ended: dict[tuple[str, str], list[Record]] = defaultdict(list)
        self._there: dict[tuple[str, str], OnStack] = {}
        self._known: dict[tuple[Cause, str, str, str], Remedy | None] = {}
        for record in records:
            self._ended[record.cell.stack, record.cell.device].append(record)

    def on_its_stack(self, cause: Cause, cell: Cell) -> Remedy | None:
        """Return the remedy against ``cause`` that trains on the stack of ``cell``."""
        asked = cause, cell.stack, cell.device, cell.scenario
        if asked not in self._known:
            place = cell.stack, cell.device
            if place not in self._there:
                self._there[place] = on_stack(self._ended[place], *place)
            self._known[asked] = remedy_for(
                cause, self._scenarios, self._there[place], scenario=cell.scenario
            )
        return self._known[asked]


def row_of(record: Record, remedies: Remedies) -> Row:
    """Return a record as a row."""
    seen = record.observation
    return Row(
        stack=record.cell.stack,
        scenario=record.cell.scenario,
        variant=record.cell.variant,
        role=record.role,
        device=record.cell.device,
        outcome=intern(record.outcome),
        passed=record.passed,
        gradient=record.gradient,
        steps_per_s=record.steps_per_s,
        peak_memory_bytes=seen.peak_memory_bytes if seen is not None else None,
        message=intern(ended(record.message, MESSAGE_LIMIT, RESOLVERS_LIMIT)),
        flaky=count_outcomes(record.judged_runs) if record.flaky else "",
        raised=seen.raised.type if seen is not None and seen.raised is not None else None,
        warnings=warned(seen) if seen is not None else (),
        diagnosis=diagnosis(record, remedies),
        recorded_at=record.recorded_at,
        key=record.recorded_key if isinstance(record, Confirmed) else record.key,
    )


def warned(seen: Observation) -> tuple[str, ...]:
    """Return the first line of each distinct warning."""
    lines = (warning.message.strip().partition("\n")[0] for warning in seen.warnings)
    shown = (ended(line[:WARNING_LIMIT], WARNING_LIMIT) for line in lines)
    return tuple(map(intern, dict.fromkeys(shown)))


def ended(text: str, *limits: int) -> str:
    """Return ``text``, with … if it has the length at which such texts are cut."""
    return f"{text}…" if len(text) in limits else text


def diagnosis(record: Record, remedies: Remedies) -> Explained | None:
    """Return why a cell does not train, with a remedy for its stack; None if that is not known."""
    if record.observation is None or record.outcome in {TRAINS, DISAGREES}:
        return None
    found = diagnose(record.observation)
    if found is None:
        return None
    remedy = remedies.on_its_stack(found.cause, record.cell)
    return Explained(
        cause=found.cause.value,
        module=found.module,
        place=found.place,
        text=explain(found, remedy),
        remedy=f"{remedy.cell.scenario}/{remedy.cell.variant}" if remedy is not None else None,
    )


def build_of(records: Iterable[Record]) -> str | None:
    """Return the build of torch with which the newest cell ran."""
    builds = [(record.recorded_at, record.build) for record in records if record.build]
    return max(builds)[1] if builds else None


def last_measured(records: Iterable[Record]) -> dt.datetime | None:
    """Return when a cell ran last, also if its older record stands; None if nothing ran."""
    return max((each.known_at for each in records if each.isolation != "none"), default=None)


class CellText(NamedTuple):
    """A cell in words, never in colour alone."""

    word: str
    """A symbol and a word."""
    note: str
    """Steps per second or another fact; may be empty."""
    line: str
    """Both on one line."""


def cell_text(row: Row) -> CellText:
    """Return what tables show of a cell."""
    symbol = SYMBOLS[row.passed]
    word = f"{symbol} {row.outcome}"
    if row.role is Role.MISUSE and is_heard(row):
        if row.passed:
            return CellText(f"{symbol} says so", row.outcome, f"{symbol} says so: {row.outcome}")
        if row.raised is None:
            return CellText(f"{symbol} silent", row.outcome, f"{symbol} silent: {row.outcome}")
    if row.outcome == TRAINS:
        fast = rate(row.steps_per_s.median) if row.steps_per_s is not None else ""
        return CellText(word, fast, f"{word}, {fast}" if fast else word)
    note = gradient_note(row.outcome, row.gradient)
    return CellText(word, note, f"{word} ({note})" if note else word)


def is_heard(row: Row) -> bool:
    """Whether the cell was judged and came far enough to show what the stack reports."""
    return row.passed is not None and phase_of(row.outcome) not in WITHOUT_A_WORD


def rate(per_second: float) -> str:
    """Format steps per second with the significant digits."""
    text = f"{per_second:.{DIGITS}g}"
    return f"{Decimal(text):f}/s" if "e" in text else f"{text}/s"


@dataclass(frozen=True)
class Grid:
    """Cells in words, with a column for each stack and a row for each variant."""

    stacks: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]

    def columns(self, start: int, stop: int) -> Grid:
        """Return the same rows with some of the columns."""
        return Grid(
            self.stacks[start:stop], tuple((s, v, cells[start:stop]) for s, v, cells in self.rows)
        )


def grid(rows: Iterable[Row], scenarios: Mapping[str, Scenario], stacks: Sequence[str]) -> Grid:
    """Return cells in words, in the order of the scenarios' variants.

    Cells without a record are "not run".
    """
    by_cell = {(row.stack, row.scenario, row.variant): cell_text(row).line for row in rows}
    pairs = sorted(
        {(scenario, variant) for _, scenario, variant in by_cell}, key=row_order(scenarios)
    )
    return Grid(
        tuple(stacks),
        tuple(
            (s, v, tuple(by_cell.get((stack, s, v), "not run") for stack in stacks))
            for s, v in pairs
        ),
    )


def row_order(
    scenarios: Mapping[str, Scenario],
) -> Callable[[tuple[str, str]], tuple[int, str, str]]:
    """Return a sort key for a scenario and variant: their order, and unknown ones last by name."""
    known = [(s.name, v.name) for s in scenarios.values() for v in s.variants]
    order = {pair: position for position, pair in enumerate(known)}
    return lambda pair: (order.get(pair, len(order)), *pair)


@dataclass(frozen=True)
class Table:
    """The whole matrix as rows: everything that formats and pages need."""

    locks: tuple[Lock, ...]
    """By as-of date, the oldest first."""
    scenarios: dict[str, Scenario]
    rows: tuple[Row, ...]
    """By device, then in the order of the scenarios' variants, then in that of ``locks``."""
    builds: Mapping[str, str] = field(default_factory=dict)
    """The build of torch of each stack that ran.

    Speed and memory of different builds cannot be compared.
    """
    measured: Mapping[str, dt.datetime] = field(default_factory=dict)
    """When a cell of each stack ran last."""
    turnings: tuple[Turning, ...] = ()
    """Which release is behind changes from stack to stack, with the locks of today."""
    runs: Mapping[Cell, Runs] = field(default_factory=dict)
    """What the runs of each timed cell measured."""
    combined: frozenset[str] = frozenset()
    """The names of the stacks of [generate.pairwise], and of others."""

    @property
    def dated(self) -> tuple[Lock, ...]:
        """The stacks that follow each other in time: all but those of [generate.pairwise]."""
        return tuple(lock for lock in self.locks if lock.stack not in self.combined)

    @property
    def stacks(self) -> list[str]:
        """The names of the stacks, the oldest as-of date first."""
        return [lock.stack for lock in self.locks]

    def of_device(self, device: str) -> list[Row]:
        """Return the rows of one device."""
        return [row for row in self.rows if row.device == device]


def tabulated(
    locks: tuple[Lock, ...],
    scenarios: dict[str, Scenario],
    rows: Iterable[Row],
    builds: Mapping[str, str] | None = None,
    flips: Flips | None = None,
    *,
    measured: Mapping[str, dt.datetime] | None = None,
) -> Table:
    """Return the table of ``rows``, in order. ``locks`` must be sorted by date."""
    place = row_order(scenarios)
    column = {lock.stack: number for number, lock in enumerate(locks)}
    by_place: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: column[row.stack]):
        by_place[row.device, row.scenario, row.variant].append(row)
    places = sorted(by_place, key=lambda each: (each[0], place(each[1:])))
    digits = {lock.stack: lock_input(lock) for lock in locks}
    turnings = tuple(
        each
        for each in (flips.turns if flips else ())
        if each.edges and tuple(map(digits.get, each.stacks)) == each.locks
    )
    ordered = tuple(row for each in places for row in by_place[each])
    return Table(locks, scenarios, ordered, builds or {}, measured or {}, turnings)


def lacks_device(rows: Iterable[Row]) -> bool:
    """Whether the machine did not have the device of ``rows``."""
    return all(row.outcome == NO_DEVICE for row in rows)
