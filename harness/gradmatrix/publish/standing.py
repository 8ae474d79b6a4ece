"""Which published records stand, because a newer run of their cells says the same."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.judge.relations import judged
from gradmatrix.publish.rows import rows_of, without_measurements
from gradmatrix.run.confirmed import confirmed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gradmatrix.core.model import Cell, Record, Scenario

LONGEST = dt.timedelta(days=30)
"""How much older than the newest run a record may be: then that run's record replaces it."""


def standing(
    published: Sequence[Record], newest: Sequence[Record], scenarios: Mapping[str, Scenario]
) -> list[Record]:
    """Return the records to publish: the newest ones, or older ones that these confirm.

    A record stands if readers would see the same of both, measurements aside. Two variants that
    must agree are compared by their losses, so both stand or none.

    Args:
        published: What is published of a stack.
        newest: The newest record of each of its cells, with relations judged.
        scenarios: By name.
    """
    there = {record.cell for record in published}
    again = {each.cell: each for each in new_records(newest, published) if each.cell in there}
    if not again:
        return list(newest)
    published = judged(published, scenarios)
    before = {record.cell: record for record in published}
    ours, theirs = (
        {row.cell: without_measurements(row) for row in rows_of(records, scenarios)}
        for records in (newest, published)
    )
    stand = {
        cell
        for cell, each in again.items()
        if ours[cell] == theirs[cell] and each.recorded_at - before[cell].recorded_at <= LONGEST
    }
    stand = together(stand, again, scenarios)
    return [confirmed(before[r.cell], r) if r.cell in stand else r for r in newest]


def new_records(newest: Iterable[Record], published: Iterable[Record]) -> list[Record]:
    """Return the records that are not those that are published."""
    there = {(each.cell, each.run, each.recorded_at) for each in published}
    return [each for each in newest if (each.cell, each.run, each.recorded_at) not in there]


def together(
    stand: set[Cell], again: Iterable[Cell], scenarios: Mapping[str, Scenario]
) -> set[Cell]:
    """Return ``stand`` without cells that are compared with one of ``again`` that does not."""
    ran = set(again)
    pairs = [
        {cell, first}
        for cell in ran
        if cell.scenario in scenarios
        for relation in scenarios[cell.scenario].agree
        if relation.second == cell.variant
        and (first := msgspec.structs.replace(cell, variant=relation.first)) in ran
    ]
    while torn := {cell for pair in pairs if len(pair & stand) == 1 for cell in pair & stand}:
        stand = stand - torn
    return stand
