"""Cells in words, in rows and columns: what a person reads. Standard library only, so that it costs nothing."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.model import Gradient, Record, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.model import Scenario

TIMED_AT_LEAST = 2
"""Steps without which there are no quartiles."""
WHOLE_FROM = 10
"""Rates from here on are shown without a decimal."""


def steps_per_s(record: Record) -> dict[str, Any] | None:
    """Optimizer steps per second over the timed steps of a cell that passed: median, quartiles, raw samples.

    ``low`` and ``high`` are the first and third quartile; ``samples`` holds one rate per timed step.
    """
    seen = record.observation
    if seen is None or record.outcome != "trains":
        return None
    rates = [1 / seconds for seconds in seen.step_times_s if seconds > 0]
    if len(rates) < TIMED_AT_LEAST:
        return None
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high, "samples": rates}


SYMBOLS = {True: "✓", False: "✗", None: "–"}


def words(record: Record) -> str:
    """A cell in a table: a symbol and words, never colour alone."""
    symbol = SYMBOLS[record.passed]
    if record.role is Role.MISUSE and record.observation is not None and record.passed is not None:
        if record.passed:
            return f"{symbol} says so: {record.outcome}"
        if record.observation.raised is None:
            return f"{symbol} silent: {record.outcome}"
    speed = steps_per_s(record)
    if record.outcome == "trains" and speed is not None:
        return f"{symbol} trains, {rate(speed['median'])}"
    text = f"{symbol} {record.outcome}"
    if record.outcome != "trains" and record.gradient in {Gradient.FLOWING, Gradient.PARTIAL}:
        return f"{text} (gradient {record.gradient})" if not record.outcome.startswith("gradient:") else text
    return text


def rate(per_second: float) -> str:
    """Steps per second with three digits at most."""
    return f"{per_second:.0f}/s" if per_second >= WHOLE_FROM else f"{per_second:.1f}/s"


@dataclass(frozen=True)
class Grid:
    """A column per stack; each row is a variant of a scenario, with its cells in words."""

    stacks: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]

    def columns(self, start: int, stop: int) -> Grid:
        """The same rows with some of the columns."""
        return Grid(self.stacks[start:stop], tuple((s, v, cells[start:stop]) for s, v, cells in self.rows))


def grid(records: Iterable[Record], scenarios: Mapping[str, Scenario], stacks: Sequence[str]) -> Grid:
    """Rows in the order of the scenarios' variants, unknown ones last; "not run" where there is no record."""
    by_cell = {(r.cell.stack, r.cell.scenario, r.cell.variant): words(r) for r in records}
    rows = sorted({(scenario, variant) for _, scenario, variant in by_cell}, key=row_order(scenarios))
    return Grid(
        tuple(stacks),
        tuple((s, v, tuple(by_cell.get((stack, s, v), "not run") for stack in stacks)) for s, v in rows),
    )


def row_order(scenarios: Mapping[str, Scenario]) -> Callable[[tuple[str, str]], tuple[int, str, str]]:
    """The sort key of a scenario and variant: the scenarios' own order, unknown ones last and by name."""
    known = [(s.name, v.name) for s in scenarios.values() for v in s.variants]
    order = {pair: position for position, pair in enumerate(known)}
    return lambda pair: (order.get(pair, len(order)), *pair)
