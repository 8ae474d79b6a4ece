"""Between two stacks: which packages moved, and which variants behave otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.flips import moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.flips import Moved
    from harness.publish.rows import Row


@dataclass(frozen=True)
class TurningPoint:
    """A variant whose outcome is another one on the later of two stacks."""

    before: Row
    after: Row


@dataclass(frozen=True)
class Moves:
    """Which packages differ between any two stacks, torch and its companions first."""

    versions: Mapping[str, Mapping[str, str]]
    """The release of every package by stack."""
    _known: dict[tuple[str, str], tuple[Moved, ...]] = field(default_factory=dict)

    def between(self, older: str, newer: str) -> tuple[Moved, ...]:
        """What moved from one stack to another."""
        if (older, newer) not in self._known:
            self._known[older, newer] = moved(self.versions[older], self.versions[newer])
        return self._known[older, newer]


def turning_points(along: Iterable[Row | None]) -> Iterator[TurningPoint]:
    """Where a variant's outcome changes from one stack on which it was judged to the next one."""
    before: Row | None = None
    for row in along:
        if row is None or row.passed is None:
            continue
        if before is not None and differ(before, row):
            yield TurningPoint(before, row)
        before = row


def differ(one: Row, other: Row) -> bool:
    """Whether two cells of a variant behave otherwise."""
    return (one.outcome, one.passed) != (other.outcome, other.passed)
