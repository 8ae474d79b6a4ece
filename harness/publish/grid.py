"""Cells in words, in rows and columns: what a person reads. Standard library only, so that it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from harness.model import Gradient, Role
from harness.outcome import TRAINS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.model import Scenario
    from harness.publish.rows import Row

DIGITS = 2
"""Significant digits of a rate in a table: the next one is noise, and would change with every run."""
SYMBOLS = {True: "✓", False: "✗", None: "–"}
WITHOUT_A_WORD = ("resolve:", "install:", "import:", "process:")
"""Outcomes that say nothing about what the stack would have told of a misuse."""


def words(row: Row) -> str:
    """A cell in a table: a symbol and words, never colour alone."""
    symbol = SYMBOLS[row.passed]
    if row.role is Role.MISUSE and row.passed is not None and not row.outcome.startswith(WITHOUT_A_WORD):
        if row.passed:
            return f"{symbol} says so: {row.outcome}"
        if row.raised is None:
            return f"{symbol} silent: {row.outcome}"
    if row.outcome == TRAINS:
        return f"{symbol} {TRAINS}" if row.steps_per_s is None else f"{symbol} trains, {rate(row.steps_per_s.median)}"
    text = f"{symbol} {row.outcome}"
    if row.gradient in {Gradient.FLOWING, Gradient.PARTIAL} and not row.outcome.startswith("gradient:"):
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
        return Grid(self.stacks[start:stop], tuple((s, v, cells[start:stop]) for s, v, cells in self.rows))


def grid(rows: Iterable[Row], scenarios: Mapping[str, Scenario], stacks: Sequence[str]) -> Grid:
    """Rows in the order of the scenarios' variants, unknown ones last; "not run" where there is no record."""
    by_cell = {(row.stack, row.scenario, row.variant): words(row) for row in rows}
    pairs = sorted({(scenario, variant) for _, scenario, variant in by_cell}, key=row_order(scenarios))
    return Grid(
        tuple(stacks),
        tuple((s, v, tuple(by_cell.get((stack, s, v), "not run") for stack in stacks)) for s, v in pairs),
    )


def row_order(scenarios: Mapping[str, Scenario]) -> Callable[[tuple[str, str]], tuple[int, str, str]]:
    """The sort key of a scenario and variant: the scenarios' own order, unknown ones last and by name."""
    known = [(s.name, v.name) for s in scenarios.values() for v in s.variants]
    order = {pair: position for position, pair in enumerate(known)}
    return lambda pair: (order.get(pair, len(order)), *pair)
