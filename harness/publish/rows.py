"""A published cell, slim: what tables, pages and data files say of it. Its whole record is in ``results/records/``."""

from __future__ import annotations

import datetime as dt
import statistics
from collections import defaultdict
from sys import intern
from typing import TYPE_CHECKING

from harness.diagnosis import diagnose
from harness.model import Cell, Gradient, Role
from harness.observation import Frame, Frozen
from harness.outcome import TRAINS
from harness.relations import DISAGREES
from harness.remedy import explained, remedy_on_its_stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.causes import Cause
    from harness.model import Record, Scenario
    from harness.observation import Observation
    from harness.remedy import Remedy

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
        return Cell(stack=self.stack, scenario=self.scenario, variant=self.variant, device=self.device)


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
    lines = (warning.message.strip().partition("\n")[0][:WARNING_LIMIT] for warning in seen.warnings)
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
        text=explained(found, remedy),
        remedy=f"{remedy.cell.scenario}/{remedy.cell.variant}" if remedy is not None else None,
    )
