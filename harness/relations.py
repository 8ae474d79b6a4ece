"""Pure: variants that must agree, compared. It is done whenever records are read to be shown; a journal keeps what ran.

Two variants that do the same maths on the same data from the same seed (checkpointed or not, manual or automatic)
have the same losses and gradient norms. Where both train and differ, the second one is said to disagree.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness.model import Role
from harness.outcome import TRAINS, Outcome, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.model import Cell, Record, Relation, Scenario
    from harness.observation import Observation

    Value = float | str | None
    """A loss or a norm; a non-finite one by its name, None where there was no scalar."""

DISAGREES = str(Outcome(Phase.RELATION, "disagrees"))
ATOL = 1e-6
"""Differences below it are those of sums in another order, where the true value is zero."""
SHOWN = 6
"""Steps that a message shows of each variant."""


def judged(records: Iterable[Record], scenarios: Mapping[str, Scenario]) -> list[Record]:
    """``records`` with every relation judged from scratch: an earlier judgement is taken back first."""
    ran = [as_it_ran(record) for record in records]
    by_cell = {record.cell: record for record in ran}
    agree = {name: scenario.agree for name, scenario in scenarios.items()}
    return [judge(record, agree.get(record.cell.scenario, ()), by_cell) for record in ran]


def as_it_ran(record: Record) -> Record:
    """The record without a judgement on its relations."""
    return replace(record, outcome=TRAINS, passed=True, message="") if record.outcome == DISAGREES else record


def judge(record: Record, agree: Iterable[Relation], by_cell: Mapping[Cell, Record]) -> Record:
    """``record``, or what becomes of it by the first relation that it does not keep."""
    for relation in agree:
        if relation.second == record.cell.variant:
            other = by_cell.get(replace(record.cell, variant=relation.first))
            message = other and disagreement(relation, other, record)
            if message:
                return replace(record, outcome=DISAGREES, passed=False, message=message)
    return record


def disagreement(relation: Relation, first: Record, second: Record) -> str | None:
    """How the second record differs from the first; None where it does not, or where the two do not compare.

    They compare where both train under one key: the same lock, script, observer, device and number of steps.
    """
    if first.key != second.key or any(each.role is Role.MISUSE or each.outcome != TRAINS for each in (first, second)):
        return None
    if first.observation is None or second.observation is None:
        return None
    return difference(relation, first.observation, second.observation)


def difference(relation: Relation, first: Observation, second: Observation) -> str | None:
    """Both sequences of what differs first, losses or gradient norms; None where all is within the tolerance."""
    compared: list[tuple[str, Sequence[Value], Sequence[Value]]]
    if relation.only == "first loss":
        compared = [("first loss", first.losses[:1], second.losses[:1])]
    else:
        compared = [
            ("loss", first.losses, second.losses),
            ("gradient norm", first.gradient_norms, second.gradient_norms),
        ]
    for name, theirs, ours in compared:
        step = first_difference(ours, theirs, relation.rtol)
        if step is not None:
            return f"{name} {some(ours, step)} against {some(theirs, step)} of {relation.first}"
    return None


def first_difference(ours: Sequence[Value], theirs: Sequence[Value], rtol: float) -> int | None:
    """The first place where two sequences differ, also by ending there; None where there is none."""
    for place, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if not close(one, other, rtol):
            return place
    return None if len(ours) == len(theirs) else min(len(ours), len(theirs))


def close(one: Value, other: Value, rtol: float) -> bool:
    """Whether two values are the same within the tolerance; a name is only the same as itself."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=rtol, abs_tol=ATOL)
    return one == other


def some(values: Sequence[Value], step: int) -> str:
    """The values around a step in a few digits; what is left out at either end is an ellipsis."""
    start = max(0, step + 1 - SHOWN // 2) if len(values) > SHOWN else 0
    shown = ["none" if value is None else f"{value:.5g}" if isinstance(value, float) else value for value in values]
    part = shown[start : start + SHOWN]
    return " ".join(["…"] * (start > 0) + part + ["…"] * (start + SHOWN < len(shown))) or "of no step"
