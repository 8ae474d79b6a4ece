"""Pure: variants that must agree, compared. It is done whenever records are read to be shown; a journal keeps what ran.

Two variants that do the same maths on the same data from the same seed (checkpointed or not, manual or automatic)
have the same losses and gradient norms. Where both train and differ, the second one is said to disagree.

Pure: by how much the losses of one seed differ between two stacks. Stated, never a failure.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gradmatrix.core.model import Role
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import LIMIT_OF, TRAINS, Outcome, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gradmatrix.core.model import Cell, Record, Relation, Scenario
    from gradmatrix.core.observation import Observation

    Value = float | str | None
    "A loss or a norm; a non-finite one by its name, None where there was no scalar."


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
    return (
        replace(record, outcome=TRAINS, passed=True, message="")
        if record.outcome == DISAGREES
        else record
    )


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

    They compare where both train with the same lock, script, observer, device and number of steps.
    """
    if shared_inputs(first) != shared_inputs(second) or any(
        each.role is Role.MISUSE or each.outcome != TRAINS for each in (first, second)
    ):
        return None
    if first.observation is None or second.observation is None:
        return None
    return difference(relation, first.observation, second.observation)


def shared_inputs(record: Record) -> dict[str, str]:
    """The inputs that two variants of a scenario share: all but their own declaration and the limits."""
    own = {"variant", *LIMIT_OF.values()}
    return {name: value for name, value in record.inputs.items() if name not in own}


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
    shown = [
        "none" if value is None else f"{value:.5g}" if isinstance(value, float) else value
        for value in values
    ]
    part = shown[start : start + SHOWN]
    return (
        " ".join(["…"] * (start > 0) + part + ["…"] * (start + SHOWN < len(shown))) or "of no step"
    )


TRAINED = frozenset({TRAINS, DISAGREES})
"""Outcomes of cells that ran to their last step and learned."""
SAME_SCRIPT = ("scenario", "steps", "threads", "device")
"""Inputs without which two sequences of losses say nothing of the packages."""


class Drift(Frozen, frozen=True):
    """The losses of the audited steps of one cell, trained from the same seed on both sides."""

    largest: float
    """The largest difference of a step, relative to the largest loss of both sides; 0 where all are identical."""
    largest_at: int | None
    """The step of it, counted from 1; None where all are identical."""
    first: int | None
    """The first step that differs at all."""
    first_difference: float
    """The relative difference at that step."""
    baseline: tuple[float, ...]
    """Loss per audited step."""
    candidate: tuple[float, ...]

    def __str__(self) -> str:
        if self.first is None:
            return "identical"
        start, most = f"{self.first_difference:.2g}", f"{self.largest:.2g}"
        grown = "" if start == most else f", {most} at step {self.largest_at}"
        return f"{start} from step {self.first}{grown}"


def drift(baseline: Record, candidate: Record) -> Drift | None:
    """How far the losses drift apart; None where a side does not train, or the two did not do the same steps.

    They do the same where the script, the steps, the threads and the kind of machine are the same.
    """
    if not {baseline.outcome, candidate.outcome} <= TRAINED or not did_the_same(
        baseline, candidate
    ):
        return None
    ours, theirs = losses(candidate), losses(baseline)
    if not ours or len(ours) != len(theirs):
        return None
    scale = max(
        map(abs, (*ours, *theirs))
    )  # of the curve: a loss that happens to be near 0 makes no drift of 100 %
    differences = [
        abs(one - other) / scale if one != other else 0.0
        for one, other in zip(theirs, ours, strict=True)
    ]
    first = next((step for step, each in enumerate(differences) if each), None)
    largest = max(differences)
    return Drift(
        largest=largest,
        largest_at=None if first is None else differences.index(largest) + 1,
        first=None if first is None else first + 1,
        first_difference=0.0 if first is None else differences[first],
        baseline=theirs,
        candidate=ours,
    )


def did_the_same(baseline: Record, candidate: Record) -> bool:
    """Whether both were asked the same on the same kind of machine."""
    return all(baseline.inputs.get(name) == candidate.inputs.get(name) for name in SAME_SCRIPT)


def losses(record: Record) -> tuple[float, ...]:
    """The losses of the audited steps; nothing where one is not a finite number."""
    seen = record.observation.losses if record.observation is not None else ()
    numbers = tuple(float(loss) for loss in seen if isinstance(loss, float | int))
    return numbers if len(numbers) == len(seen) else ()
