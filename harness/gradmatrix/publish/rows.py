"""A published cell, slim: what tables, pages and data files say of it. Its whole record is in ``results/records/``.

Cells in words, in rows and columns: what a person reads. Standard library only, so that it costs nothing.

What is published: the stacks' locks, the scenarios and the cells, in a stable order.
"""

from __future__ import annotations

import datetime as dt
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from sys import intern
from typing import TYPE_CHECKING

from gradmatrix.core.model import Cell, Gradient, Role
from gradmatrix.core.observation import Frame, Frozen
from gradmatrix.core.outcomes import DISAGREES, NO_DEVICE, TRAINS
from gradmatrix.judge.causes import explain, remedy_on_its_stack
from gradmatrix.judge.diagnosis import diagnose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gradmatrix.core.model import Lock, Record, Scenario
    from gradmatrix.core.observation import Observation
    from gradmatrix.judge.causes import Cause, Remedy


TIMED_AT_LEAST = 2
"""Steps without which there are no quartiles."""
WARNING_LIMIT = 300
"""Characters that are published of a warning; its record has all of it."""


class Rate(Frozen, frozen=True):
    """Optimizer steps per second over the timed steps of a cell that trains: median, first and third quartile."""

    median: float
    low: float
    high: float
    samples: tuple[float, ...]
    """The rate of each timed step, in order."""


class Explained(Frozen, frozen=True):
    """Why a cell does not train."""

    cause: str
    module: str | None
    place: Frame | None
    """The responsible line of code; ``causes.spot`` has it as text."""
    text: tuple[str, ...]
    """Two to six lines; the last one says what to do."""
    remedy: str | None
    """``SCENARIO/VARIANT`` that was seen to train on the same stack."""


class Row(Frozen, frozen=True):
    """One cell of the published matrix."""

    stack: str
    scenario: str
    variant: str
    role: Role
    device: str
    outcome: str
    passed: bool | None
    """None where it was not judged: the stack has no such feature, or the machine no such device."""
    gradient: Gradient | None
    steps_per_s: Rate | None
    peak_memory_bytes: int | None
    message: str
    raised: str | None
    """The type of the exception that ended it."""
    warnings: tuple[str, ...]
    """The first line of each warning that it gave, without repetition."""
    diagnosis: Explained | None
    recorded_at: dt.datetime
    key: str
    """Hash of all that the verdict depends on."""

    @property
    def cell(self) -> Cell:
        """The cell that it is of."""
        return Cell(
            stack=self.stack, scenario=self.scenario, variant=self.variant, device=self.device
        )


def rows_of(records: Iterable[Record], scenarios: Mapping[str, Scenario]) -> Iterator[Row]:
    """The row of each record; ``records`` are all of their stacks, since a remedy is one that trains on the stack."""
    records = list(records)
    remedies = Remedies(scenarios, records)
    for record in records:
        yield row_of(record, remedies)


class Remedies:
    """What trains on each stack, so that a remedy is looked up once for each cause and scenario."""

    def __init__(self, scenarios: Mapping[str, Scenario], records: Iterable[Record]) -> None:
        self._scenarios = scenarios
        self._trained: dict[tuple[str, str], list[Record]] = defaultdict(list)
        self._known: dict[tuple[Cause, str, str, str], Remedy | None] = {}
        for record in records:
            if record.outcome == TRAINS:
                self._trained[record.cell.stack, record.cell.device].append(record)

    def on_its_stack(self, cause: Cause, cell: Cell) -> Remedy | None:
        """What was seen to help against ``cause`` on the stack of ``cell``."""
        asked = cause, cell.stack, cell.device, cell.scenario
        if asked not in self._known:
            trained = self._trained[cell.stack, cell.device]
            self._known[asked] = remedy_on_its_stack(cause, self._scenarios, trained, cell)
        return self._known[asked]


def row_of(record: Record, remedies: Remedies) -> Row:
    """One record as a row."""
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
        steps_per_s=steps_per_s(record),
        peak_memory_bytes=seen.peak_memory_bytes if seen is not None else None,
        message=intern(record.message),
        raised=seen.raised.type if seen is not None and seen.raised is not None else None,
        warnings=warned(seen) if seen is not None else (),
        diagnosis=diagnosis(record, remedies),
        recorded_at=record.recorded_at,
        key=record.key,
    )


def steps_per_s(record: Record) -> Rate | None:
    """Its optimizer steps per second; None where it does not train or has no timed steps."""
    seen = record.observation
    if seen is None or record.outcome != TRAINS:
        return None
    rates = tuple(1 / seconds for seconds in seen.step_times_s if seconds > 0)
    if len(rates) < TIMED_AT_LEAST:
        return None
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    return Rate(median=median, low=low, high=high, samples=rates)


def warned(seen: Observation) -> tuple[str, ...]:
    """The first line of each warning, once."""
    lines = (
        warning.message.strip().partition("\n")[0][:WARNING_LIMIT] for warning in seen.warnings
    )
    return tuple(map(intern, dict.fromkeys(lines)))


def diagnosis(record: Record, remedies: Remedies) -> Explained | None:
    """Why it does not train, with what was seen to work on its stack; None where that cannot be said."""
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


DIGITS = 2
"""Significant digits of a rate in a table: the next one is noise, and would change with every run."""
SYMBOLS = {True: "✓", False: "✗", None: "–"}
WITHOUT_A_WORD = ("resolve:", "install:", "import:", "process:")
"""Outcomes that say nothing about what the stack would have told of a misuse."""


def words(row: Row) -> str:
    """A cell in a table: a symbol and words, never colour alone."""
    symbol = SYMBOLS[row.passed]
    if (
        row.role is Role.MISUSE
        and row.passed is not None
        and not row.outcome.startswith(WITHOUT_A_WORD)
    ):
        if row.passed:
            return f"{symbol} says so: {row.outcome}"
        if row.raised is None:
            return f"{symbol} silent: {row.outcome}"
    if row.outcome == TRAINS:
        return (
            f"{symbol} {TRAINS}"
            if row.steps_per_s is None
            else f"{symbol} trains, {rate(row.steps_per_s.median)}"
        )
    text = f"{symbol} {row.outcome}"
    if row.gradient in {Gradient.FLOWING, Gradient.PARTIAL} and not row.outcome.startswith(
        "gradient:"
    ):
        return f"{text} (gradient {row.gradient})"
    return text


def rate(per_second: float) -> str:
    """Steps per second with as many digits as mean something."""
    return f"{Decimal(f'{per_second:.{DIGITS}g}'):f}/s"


@dataclass(frozen=True)
class Grid:
    """A column per stack; each row is a variant of a scenario, with its cells in words."""

    stacks: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]

    def columns(self, start: int, stop: int) -> Grid:
        """The same rows with some of the columns."""
        return Grid(
            self.stacks[start:stop], tuple((s, v, cells[start:stop]) for s, v, cells in self.rows)
        )


def grid(rows: Iterable[Row], scenarios: Mapping[str, Scenario], stacks: Sequence[str]) -> Grid:
    """Rows in the order of the scenarios' variants, unknown ones last; "not run" where there is no record."""
    by_cell = {(row.stack, row.scenario, row.variant): words(row) for row in rows}
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
    """The sort key of a scenario and variant: the scenarios' own order, unknown ones last and by name."""
    known = [(s.name, v.name) for s in scenarios.values() for v in s.variants]
    order = {pair: position for position, pair in enumerate(known)}
    return lambda pair: (order.get(pair, len(order)), *pair)


@dataclass(frozen=True)
class Table:
    """The whole matrix as rows: everything that the renderers need."""

    locks: tuple[Lock, ...]
    """By as-of date, the oldest first."""
    scenarios: dict[str, Scenario]
    rows: tuple[Row, ...]
    """By device, then in the order of the scenarios' variants, then in that of ``locks``."""
    builds: Mapping[str, str] = field(default_factory=dict)
    """The build of torch of each stack that ran: speeds and memory of unlike builds do not compare."""

    @property
    def stacks(self) -> list[str]:
        """Names of the stacks, oldest as-of date first."""
        return [lock.stack for lock in self.locks]

    def of_device(self, device: str) -> list[Row]:
        """The rows of one device."""
        return [row for row in self.rows if row.device == device]


def tabulated(
    locks: tuple[Lock, ...],
    scenarios: dict[str, Scenario],
    rows: Iterable[Row],
    builds: Mapping[str, str] | None = None,
) -> Table:
    """The table of ``rows``, in order; ``locks`` are by date."""
    place = row_order(scenarios)
    column = {lock.stack: number for number, lock in enumerate(locks)}

    def key(row: Row) -> tuple[str, tuple[int, str, str], int]:
        return row.device, place((row.scenario, row.variant)), column[row.stack]

    return Table(locks, scenarios, tuple(sorted(rows, key=key)), builds or {})


def lacks_device(rows: Iterable[Row]) -> bool:
    """Whether all that ``rows`` of a device say is that there is none."""
    return all(row.outcome == NO_DEVICE for row in rows)
