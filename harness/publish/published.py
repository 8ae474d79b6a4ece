"""What is published: the stacks' locks, the scenarios and the newest record of every cell, in a stable order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model import Lock, Record, Scenario

SHOWN = ("torch", "lightning", "transformers", "trl", "peft")


@dataclass(frozen=True)
class Published:
    """Everything the renderers need: the stacks' locks in order of date, the scenarios, the records."""

    locks: tuple[Lock, ...]
    scenarios: dict[str, Scenario]
    records: tuple[Record, ...]

    @property
    def stacks(self) -> list[str]:
        """Names of the stacks, oldest as-of date first."""
        return [lock.stack for lock in self.locks]

    def of_device(self, device: str) -> list[Record]:
        """The records of one device."""
        return [record for record in self.records if record.cell.device == device]


def gather(locks: Iterable[Lock], scenarios: dict[str, Scenario], records: Iterable[Record]) -> Published:
    """The locks by date, and those records whose stack and variant are still part of the matrix."""
    ordered = tuple(sorted(locks, key=lambda lock: (lock.as_of, lock.stack)))
    names = {lock.stack for lock in ordered}
    variants = {(s.name, v.name) for s in scenarios.values() for v in s.variants}
    kept = (r for r in records if r.cell.stack in names and (r.cell.scenario, r.cell.variant) in variants)
    return Published(ordered, scenarios, tuple(sorted(kept, key=lambda record: record.cell)))


def lacks_device(records: Iterable[Record]) -> bool:
    """Whether all that ``records`` of a device say is that there is none."""
    return all(record.outcome == "setup:no-device" for record in records)
