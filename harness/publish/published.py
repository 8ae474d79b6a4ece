"""What is published: the stacks' locks, the scenarios and the cells, in a stable order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.plan import lock_input
from harness.publish.grid import row_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model import Lock, Record, Scenario
    from harness.publish.rows import Row

SHOWN = ("torch", "lightning", "transformers", "trl", "peft")


@dataclass(frozen=True)
class Published:
    """The newest record of every cell, whole: what commands about single cells need."""

    locks: tuple[Lock, ...]
    """By as-of date, the oldest first."""
    scenarios: dict[str, Scenario]
    records: tuple[Record, ...]

    @property
    def stacks(self) -> list[str]:
        """Names of the stacks, oldest as-of date first."""
        return [lock.stack for lock in self.locks]


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


def by_date(locks: Iterable[Lock]) -> tuple[Lock, ...]:
    """The locks in the order in which everything shows them."""
    return tuple(sorted(locks, key=lambda lock: (lock.as_of, lock.stack)))


def of_matrix(records: Iterable[Record], scenarios: dict[str, Scenario]) -> list[Record]:
    """Those records whose variant is still part of the matrix, in a stable order."""
    variants = {(s.name, v.name) for s in scenarios.values() for v in s.variants}
    kept = (record for record in records if (record.cell.scenario, record.cell.variant) in variants)
    return sorted(kept, key=lambda record: record.cell)


def of_locks(records: Iterable[Record], locks: Iterable[Lock]) -> list[Record]:
    """Those records that were run under the lock their stack has now: others say nothing about its versions."""
    current = {lock.stack: lock_input(lock) for lock in locks}
    return [r for r in records if r.cell.stack in current and r.inputs.get("lock") in {None, current[r.cell.stack]}]


def gather(locks: Iterable[Lock], scenarios: dict[str, Scenario], records: Iterable[Record]) -> Published:
    """The locks by date, and those records whose stack, lock and variant are still part of the matrix."""
    ordered = by_date(locks)
    return Published(ordered, scenarios, tuple(of_matrix(of_locks(records, ordered), scenarios)))


def lacks_device(rows: Iterable[Row]) -> bool:
    """Whether all that ``rows`` of a device say is that there is none."""
    return all(row.outcome == "setup:no-device" for row in rows)
