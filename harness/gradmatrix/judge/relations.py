"""Losses compared: of two variants that must agree, and of one cell on two stacks.

Two variants that compute the same on the same data from the same seed (checkpointed or not, manual
or automatic) have the same losses and gradient norms. If both train and differ, the second one
disagrees. Records are stored as they ran; relations are judged each time records are read.

The losses of one cell may also differ between two stacks. This drift is reported, and is never a
failure.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gradmatrix.core.model import Role
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import DISAGREES, LIMIT_OF, TRAINS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gradmatrix.core.model import Cell, Record, Relation, Scenario
    from gradmatrix.core.observation import Observation

    Value = float | str | None
    "A loss or a norm; a non-finite one by its name, None if there was no scalar."

ATOL = 1e-6
"""Smaller differences may come from another order of a sum whose true value is zero."""
SHOWN = 6
"""Steps that a message shows of each variant."""
TRAINED = frozenset({TRAINS, DISAGREES})
"""Outcomes of cells that ran to their last step and learned."""
SAME_SCRIPT = ("scenario", "steps", "threads", "device")
"""Inputs that must be the same, else a difference says nothing about the packages."""
PROCESSORS = ("cpu", "gpu")
"""Facts that must be the same too: the kernels of another processor add in another order."""


def judged(records: Iterable[Record], scenarios: Mapping[str, Scenario]) -> list[Record]:
    """``records`` with every relation judged again, whatever an earlier judgement said."""
    ran = [as_it_ran(record) for record in records]
    by_cell = {record.cell: record for record in ran}
    agree = {name: scenario.agree for name, scenario in scenarios.items()}
    return [judge(record, agree.get(record.cell.scenario, ()), by_cell) for record in ran]


def as_it_ran(record: Record) -> Record:
    """The record as it was before its relations were judged."""
    if record.outcome == DISAGREES:
        return replace(record, outcome=TRAINS, passed=True, message="")
    return replace(record, message="") if record.outcome == TRAINS and record.message else record


def judge(record: Record, agree: Iterable[Relation], by_cell: Mapping[Cell, Record]) -> Record:
    """``record``, or the same with the outcome DISAGREES if it breaks a relation.

    If the two ran on different processors, a difference is told and not judged.
    """
    for relation in agree:
        if relation.second == record.cell.variant:
            other = by_cell.get(replace(record.cell, variant=relation.first))
            message = other and disagreement(relation, other, record)
            if other and message:
                one, another = processors(other), processors(record)
                if one == another:
                    return replace(record, outcome=DISAGREES, passed=False, message=message)
                record = replace(
                    record, message=f"not judged: {message}, which ran on {one}, this on {another}"
                )
    return record


def disagreement(relation: Relation, first: Record, second: Record) -> str | None:
    """How the second record differs from the first; None if it does not.

    They are compared if both train with the same lock, script, observer, device and steps.
    """
    if any(each.role is Role.MISUSE or each.outcome != TRAINS for each in (first, second)):
        return None
    if shared_inputs(first) != shared_inputs(second):
        return None
    if first.observation is None or second.observation is None:
        return None
    return difference(relation, first.observation, second.observation)


def processors(record: Record) -> str:
    """The processors that a record ran on, as its observation names them."""
    facts = record.observation.environment if record.observation is not None else {}
    return ", ".join(facts[name] for name in PROCESSORS if facts.get(name)) or "an unknown one"


def shared_inputs(record: Record) -> dict[str, str]:
    """The inputs that two variants of a scenario share: all but their own part and the limits."""
    own = {"variant", *LIMIT_OF.values()}
    return {name: value for name, value in record.inputs.items() if name not in own}


def difference(relation: Relation, first: Observation, second: Observation) -> str | None:
    """Both sequences of what differs first, losses or norms; None if nothing does."""
    compared: list[tuple[str, Sequence[Value], Sequence[Value]]]
    if relation.only == "first loss":
        compared = [("first loss", first.losses[:1], second.losses[:1])]
    else:
        compared = [("loss", first.losses, second.losses)]
    if relation.only is None:
        compared.append(("gradient norm", first.gradient_norms, second.gradient_norms))
    for name, theirs, ours in compared:
        step = first_difference(ours, theirs, relation.rtol)
        if step is not None:
            return f"{name} {some(ours, step)} against {some(theirs, step)} of {relation.first}"
    return None


def first_difference(
    ours: Sequence[Value], theirs: Sequence[Value], rtol: float, atol: float = ATOL
) -> int | None:
    """The first step at which two sequences differ or one of them ends; None if they agree."""
    for step, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if not close(one, other, rtol, atol):
            return step
    return None if len(ours) == len(theirs) else min(len(ours), len(theirs))


def close(one: Value, other: Value, rtol: float, atol: float = ATOL) -> bool:
    """Whether two values agree: numbers within the tolerances, names of non-finite ones exactly."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=rtol, abs_tol=atol)
    return one == other


def some(values: Sequence[Value], step: int) -> str:
    """The values around a step, with an ellipsis for what is left out at either end."""
    start = max(0, step + 1 - SHOWN // 2) if len(values) > SHOWN else 0
    shown = [
        "none" if value is None else f"{value:.5g}" if isinstance(value, float) else value
        for value in values
    ]
    part = shown[start : start + SHOWN]
    before, after = ["…"] * (start > 0), ["…"] * (start + SHOWN < len(shown))
    return " ".join([*before, *part, *after]) or "of no step"


class Drift(Frozen, frozen=True):
    """The losses of the audited steps of one cell, trained from the same seed on both sides."""

    largest: float
    """The largest difference at one step, relative to the largest loss of both sides."""
    largest_at: int | None
    """Its step, counted from 1; None if the losses are identical."""
    first: int | None
    """The first step at which the losses differ."""
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
    """How far the losses of two records drift apart.

    Returns:
        None if a side does not train, a loss is not finite, or the script, the steps, the threads,
        the kind of machine or its processors are not the same.
    """
    if not {baseline.outcome, candidate.outcome} <= TRAINED:
        return None
    if processors(baseline) != processors(candidate):
        return None
    if any(baseline.inputs.get(name) != candidate.inputs.get(name) for name in SAME_SCRIPT):
        return None
    ours, theirs = losses(candidate), losses(baseline)
    if not ours or len(ours) != len(theirs):
        return None
    first = first_difference(ours, theirs, rtol=0, atol=0)
    # relative to the whole curve: a loss near 0 must not make a drift of 100 %
    scale = max(map(abs, (*ours, *theirs))) or 1
    differences = [abs(one - other) / scale for one, other in zip(theirs, ours, strict=True)]
    largest = max(differences)
    return Drift(
        largest=largest,
        largest_at=None if first is None else differences.index(largest) + 1,
        first=None if first is None else first + 1,
        first_difference=0.0 if first is None else differences[first],
        baseline=theirs,
        candidate=ours,
    )


def losses(record: Record) -> tuple[float, ...]:
    """The losses of the audited steps; empty if one is not a finite number."""
    seen = record.observation.losses if record.observation is not None else ()
    numbers = tuple(float(loss) for loss in seen if isinstance(loss, float | int))
    return numbers if len(numbers) == len(seen) else ()
