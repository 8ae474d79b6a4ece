"""Pure: by how much the losses of one seed differ between two stacks. Stated, never a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.observation import Frozen
from harness.outcome import TRAINS
from harness.relations import DISAGREES

if TYPE_CHECKING:
    from harness.model import Record

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
    if not {baseline.outcome, candidate.outcome} <= TRAINED or not did_the_same(baseline, candidate):
        return None
    ours, theirs = losses(candidate), losses(baseline)
    if not ours or len(ours) != len(theirs):
        return None
    scale = max(map(abs, (*ours, *theirs)))  # of the curve: a loss that happens to be near 0 makes no drift of 100 %
    differences = [abs(one - other) / scale if one != other else 0.0 for one, other in zip(theirs, ours, strict=True)]
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
