"""The matrix as its pages look at it: every cell by its place, and the sections in which it is shown."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from harness.model import Role
from harness.publish.published import lacks_device
from harness.publish.site.moves import Moves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.model import Lock
    from harness.publish.published import Table
    from harness.publish.rows import Row

WINDOW = 24
"""Stacks that one page shows side by side."""
MOST_CELLS, LEAST_STACKS = 2000, 6
"""A page with more cells takes a browser too long to lay out: it shows fewer stacks, but not fewer than these."""
Place = tuple[str, str, str]
"""Scenario, variant, device."""


@dataclass(frozen=True)
class Line:
    """A row of the shown matrix: a variant on a device."""

    scenario: str
    variant: str
    role: Role
    device: str

    @property
    def place(self) -> Place:
        """Where its cells are."""
        return self.scenario, self.variant, self.device


@dataclass(frozen=True)
class Section:
    """Rows under one question: misuse never reads as a stack that cannot train."""

    device: str
    misuse: bool
    lines: tuple[Line, ...]

    @property
    def question(self) -> str:
        """What its cells answer."""
        return "Does the stack tell you?" if self.misuse else "Does it train?"

    @property
    def anchor(self) -> str:
        """Its name in an address."""
        return f"{'misuse' if self.misuse else 'trains'}-{self.device}"


@dataclass(frozen=True)
class View:
    """A table, and its cells by stack and place."""

    table: Table

    @cached_property
    def cells(self) -> dict[str, dict[Place, Row]]:
        """Every cell by the name of its stack and its place."""
        found: dict[str, dict[Place, Row]] = defaultdict(dict)
        for row in self.table.rows:
            found[row.stack][row.scenario, row.variant, row.device] = row
        return found

    @cached_property
    def newest_first(self) -> tuple[Lock, ...]:
        """The stacks in the order of the columns."""
        return self.table.locks[::-1]

    @cached_property
    def versions(self) -> dict[str, dict[str, str]]:
        """The release of every package by stack."""
        return {lock.stack: {each.name: each.version for each in lock.packages} for lock in self.table.locks}

    @cached_property
    def builds(self) -> Mapping[str, str]:
        """The build of torch of each stack that ran, where they are not all alike; empty where they are."""
        builds = self.table.builds
        return builds if len(set(builds.values())) > 1 else {}

    @cached_property
    def before(self) -> dict[str, str]:
        """The stack before each one, by date."""
        names = self.table.stacks
        return dict(zip(names[1:], names, strict=False))

    @cached_property
    def moves(self) -> Moves:
        """Which packages moved between any two stacks."""
        return Moves(self.versions)

    @cached_property
    def absent(self) -> dict[str, str]:
        """The devices on which no cell was judged, with the reason."""
        by_device: dict[str, list[Row]] = defaultdict(list)
        for row in self.table.rows:
            by_device[row.device].append(row)
        return {device: rows[0].message for device, rows in by_device.items() if lacks_device(rows)}

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The questions, of each device on which something was judged."""
        lines: dict[tuple[str, bool], dict[Line, None]] = {}
        for row in self.table.rows:
            if row.device not in self.absent:
                line = Line(row.scenario, row.variant, row.role, row.device)
                lines.setdefault((row.device, row.role is Role.MISUSE), {})[line] = None
        return tuple(Section(device, misuse, tuple(each)) for (device, misuse), each in sorted(lines.items()))

    @property
    def devices(self) -> list[str]:
        """The devices on which something was judged."""
        return list(dict.fromkeys(section.device for section in self.sections))

    def row(self, stack: str, place: Place) -> Row | None:
        """A cell; None where it was not run."""
        return self.cells.get(stack, {}).get(place)

    def along(self, place: Place) -> list[Row | None]:
        """A variant on each stack, the oldest first."""
        return [self.row(lock.stack, place) for lock in self.table.locks]

    def lines_of(self, scenario: str) -> Iterator[Line]:
        """The rows of a scenario."""
        return (line for section in self.sections for line in section.lines if line.scenario == scenario)

    def windows(self) -> list[tuple[Lock, ...]]:
        """The stacks in groups that fit on a page, the newest first."""
        locks = self.newest_first
        lines = sum(len(section.lines) for section in self.sections)
        wide = max(LEAST_STACKS, min(WINDOW, MOST_CELLS // max(1, lines)))
        return [locks[start : start + wide] for start in range(0, len(locks), wide)] or [()]
