"""What is published: the stacks' locks, the scenarios and the cells, in a stable order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.publish.grid import row_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model import Lock, Scenario
    from harness.publish.rows import Row


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
    return all(row.outcome == "setup:no-device" for row in rows)
