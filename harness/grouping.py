"""Pure: cells that changed alike and share a cause, as one group: same phase, reason, and place."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.causes import Cause
from harness.comparison import Group
from harness.diagnosis import diagnose
from harness.model import Role
from harness.remedy import advice, remedy_on_its_stack
from harness.standing import OF_VERDICTS, Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.causes import Diagnosis
    from harness.comparison import CellChange
    from harness.model import Record, Scenario

    Shared = tuple[str, ...]
    """What the cells of a group have in common."""

ORDER = (Change.REGRESSED, Change.BROKE_DIFFERENTLY, Change.FIXED, Change.NEW)
"""Changes that are grouped, in the order in which they are reported; of what is new that which fails."""
VARYING = re.compile(r"0x[0-9a-f]+|\d+")
"""What differs between messages of one cause: addresses, sizes, lines."""


@dataclass(frozen=True)
class Changed:
    """A change of a cell, with the record that says why it fails."""

    change: CellChange
    failing: Record
    """The candidate's; of what is fixed the baseline's."""
    others: tuple[Record, ...]
    """All records of the side that fails: a remedy is one of them."""


def groups(changed: Iterable[Changed], scenarios: Mapping[str, Scenario]) -> tuple[Group, ...]:
    """The groups: the changes in their order, misuse after the rest, those of one cause together, the biggest first."""
    together: dict[Shared, list[tuple[Changed, Diagnosis | None]]] = defaultdict(list)
    for each in changed:
        if is_grouped(each.change):
            found = diagnose(each.failing.observation) if each.failing.observation is not None else None
            together[shared(each, found)].append((each, found))
    found_groups = [group(members, scenarios) for members in together.values()]
    of_cause = Counter[str | None]()
    for one in found_groups:
        of_cause[one.cause] += len(one.cells)

    def order(one: Group) -> tuple[int, bool, int, str, int]:
        alike = -of_cause[one.cause], one.cause or ""
        return ORDER.index(one.change), one.misuse, *alike, -len(one.cells)

    return tuple(sorted(found_groups, key=order))


def is_grouped(change: CellChange) -> bool:
    """Whether it is told by its cause: changes of verdict, and what is new and fails."""
    fails = change.after is not None and change.after.passed is False
    return change.change in OF_VERDICTS or (change.change is Change.NEW and fails)


def shared(each: Changed, found: Diagnosis | None) -> Shared:
    """What its group has in common."""
    record = each.failing
    misuse = "misuse" if record.role is Role.MISUSE else ""
    return each.change.change.value, misuse, record.outcome, *cause(record, found)


def cause(record: Record, found: Diagnosis | None) -> Shared:
    """Cause, file and function; where the place is in the script itself, or is not known, also what was said.

    A whole column that could not be installed, or a library that cannot be imported, is told by its message.
    """
    if record.observation is None or record.observation.reached == "import":
        return (alike(record.message),)
    if found is None:
        return (record.cell.scenario,)
    if found.place is None:
        return found.cause.value, record.cell.scenario, alike(found.text[0])
    at = found.cause.value, found.place.file, found.place.function
    in_a_library = "/" in found.place.file
    return at if in_a_library or found.cause is not Cause.EXCEPTION else (*at, alike(found.text[0]))


def alike(message: str) -> str:
    """A message without what varies."""
    return VARYING.sub("…", message)


def group(members: list[tuple[Changed, Diagnosis | None]], scenarios: Mapping[str, Scenario]) -> Group:
    """The group of these, told by its first cell."""
    first, found = members[0]
    record = first.failing
    misuse = record.role is Role.MISUSE
    curable = found if not misuse else None  # it is meant to fail: what is wrong is that the stack is silent
    remedy = remedy_on_its_stack(curable.cause, scenarios, first.others, record.cell) if curable is not None else None
    return Group(
        change=first.change.change,
        misuse=misuse,
        outcome=record.outcome,
        gradient=record.gradient,
        cause=found.cause.value if found is not None else None,
        module=found.module if found is not None else None,
        place=found.place if found is not None else None,
        text=found.text if found is not None else (record.message,),
        advice=advice(curable, remedy) if curable is not None else None,
        remedy=f"{remedy.cell.scenario}/{remedy.cell.variant}" if remedy is not None else None,
        cells=tuple(each.change.cell for each, _ in members),
    )
