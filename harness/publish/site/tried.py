"""What people do against a cause, and on how many of the stacks that show it each remedy was seen to train."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.model import Scenario
    from harness.publish.rows import Row
    from harness.publish.site.view import View

MOST_STACKS = 6
"""Stacks that are named of an outcome, the newest ones."""
MARKS = {True: ("p", "✓"), None: ("h", "◐"), False: ("f", "✗")}
"""Class and symbol of a remedy that works everywhere, on some, on none."""


class Ended(NamedTuple):
    """The stacks on which a remedy ended alike."""

    outcome: str
    rows: Sequence[Row]
    """The newest ones."""
    untold: int


class Tried(NamedTuple):
    """A remedy on the stacks on which its scenario fails for the cause."""

    scenario: str
    variant: str
    device: str
    summary: str
    trains: Ended
    fails: Sequence[Ended]
    judged: int

    @property
    def trained(self) -> int:
        """On how many stacks it trains."""
        return len(self.trains.rows) + self.trains.untold

    @property
    def mark(self) -> tuple[str, str]:
        """Class and symbol: works everywhere, on some, on none."""
        return MARKS[None if 0 < self.trained < self.judged else bool(self.trained)]


def tried(view: View, cause: str, failing: Iterable[Row]) -> list[Tried]:
    """The remedies against ``cause`` in the scenarios of the ``failing`` cells, on the stacks of these cells alone.

    Where none of those scenarios has a remedy, those of the other scenarios are looked at. ``failing`` are of the
    newest stack first.
    """
    where: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    anywhere: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    scenarios = view.table.scenarios.values()
    for row in failing:
        where[row.scenario, row.device][row.stack] = None
        for scenario in scenarios:
            anywhere[scenario.name, row.device][row.stack] = None
    return looked_up(view, cause, where) or looked_up(view, cause, anywhere)


def looked_up(view: View, cause: str, where: dict[tuple[str, str], dict[str, None]]) -> list[Tried]:
    """The remedies of each scenario and device on some stacks."""
    return [
        found
        for (name, device), stacks in sorted(where.items())
        if name in view.table.scenarios
        for found in of_scenario(view, cause, view.table.scenarios[name], device, stacks)
    ]


def of_scenario(view: View, cause: str, scenario: Scenario, device: str, stacks: Iterable[str]) -> Iterable[Tried]:
    """The remedies of a scenario that were judged on one of the stacks."""
    for variant in scenario.variants:
        if cause not in variant.cures:
            continue
        place = (scenario.name, variant.name, device)
        rows = [row for stack in stacks if (row := view.row(stack, place)) is not None and row.passed is not None]
        if rows:
            by_outcome: dict[str, list[Row]] = defaultdict(list)
            for row in rows:
                by_outcome[row.outcome].append(row)
            trains = ended("trains", by_outcome.pop("trains", []))
            fails = [ended(outcome, each) for outcome, each in by_outcome.items()]
            yield Tried(*place, variant.summary, trains, fails, len(rows))


def ended(outcome: str, rows: Sequence[Row]) -> Ended:
    """Cells that ended alike, the newest of them to be named."""
    return Ended(outcome, rows[:MOST_STACKS], len(rows[MOST_STACKS:]))
