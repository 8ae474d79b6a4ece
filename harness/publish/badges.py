"""badges/: a JSON per stack, and per scenario of a stack, as shields.io reads it from an address ("endpoint").

A badge answers "may I train with this?". It counts the variants that people reported; a variant counts as one that
trains where it passes on every device on which it was judged. In words and in colour:

- a control fails: ``1 of 5 controls fail``, red: not even what nobody complained of trains;
- all reported variants train: ``4 of 4 reports train``, brightgreen;
- some do: ``2 of 4 reports train``, yellow;
- none does: ``0 of 4 reports train``, orange where a remedy trains, else red;
- without a judged report the controls are counted: ``5 of 5 controls train``, brightgreen, or else the remedies;
- nothing was judged: ``not judged``, lightgrey.

Misuse is left out: it cannot train.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal

import msgspec

from harness.model import Role
from harness.observation import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.publish.published import Table
    from harness.publish.rows import Row

    Verdicts = Mapping[Role, Mapping[tuple[str, str], bool]]
    """Whether each judged variant of a role trains, wherever it was judged."""


class Badge(Frozen, frozen=True):
    """The schema of a shields endpoint."""

    schemaVersion: Literal[1]  # noqa: N815  (its name there)
    label: str
    message: str
    color: str


def badges(table: Table) -> Iterator[tuple[str, bytes]]:
    """The path of each badge below ``badges/``, and its JSON."""
    by_stack: dict[str, list[Row]] = {stack: [] for stack in table.stacks}
    by_scenario: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in table.rows:
        if row.role is not Role.MISUSE:
            by_stack[row.stack].append(row)
            by_scenario[row.stack, row.scenario].append(row)
    encoder = msgspec.json.Encoder()
    for stack, rows in by_stack.items():
        yield f"{stack}.json", encoder.encode(badge(stack, rows)) + b"\n"
    for (stack, scenario), rows in sorted(by_scenario.items()):
        yield f"{stack}/{scenario}.json", encoder.encode(badge(f"{scenario} on {stack}", rows)) + b"\n"


def badge(label: str, rows: Iterable[Row]) -> Badge:
    """The badge of some rows, none of them misuse."""
    message, color = state(verdicts(rows))
    return Badge(schemaVersion=1, label=label, message=message, color=color)


def verdicts(rows: Iterable[Row]) -> Verdicts:
    """Whether each judged variant trains, by role."""
    found: dict[Role, dict[tuple[str, str], bool]] = {role: {} for role in Role}
    for row in rows:
        if row.passed is not None:
            variant = row.scenario, row.variant
            found[row.role][variant] = row.passed and found[row.role].get(variant, True)
    return found


def state(judged: Verdicts) -> tuple[str, str]:
    """Message and colour."""
    controls, reports, remedies = (judged[role] for role in (Role.CONTROL, Role.REPORTED, Role.REMEDY))
    failing = len(controls) - sum(controls.values())
    if failing:
        return f"{failing} of {len(controls)} controls fail", "red"
    for word, counted in (("reports", reports), ("controls", controls), ("remedies", remedies)):
        if counted:
            trains = sum(counted.values())
            return f"{trains} of {len(counted)} {word} train", color_of(
                trains, len(counted), has_remedy=any(remedies.values())
            )
    return "not judged", "lightgrey"


def color_of(trains: int, counted: int, *, has_remedy: bool) -> str:
    """The colour of so many that train, where the controls do."""
    if trains == counted:
        return "brightgreen"
    if trains:
        return "yellow"
    return "orange" if has_remedy else "red"
