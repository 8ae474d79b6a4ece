"""Pure: two sides, cell by cell: what regressed, what is fixed, what broke differently, and what cannot be said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.answer import Found, answered, counted, headline, worst_first
from harness.comparison import CellChange, Comparison, Ending, Pair, SideFacts, Verdict
from harness.drift import drift
from harness.grouping import Changed, groups
from harness.measured import Key
from harness.model import Cell
from harness.moved import packages_moved
from harness.observation import SCHEMA
from harness.plan import lock_input
from harness.standing import Change, Stood, change_of, is_missing, why

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.measured import Measured
    from harness.model import Lock, Record, Scenario

__all__ = ["Change", "Comparison", "Key", "Side", "Verdict", "compare", "compare_stacks"]


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    name: str
    lock: Lock | None
    """None where records are all that is left of it."""
    records: Mapping[Key, Record]
    """The newest record of every cell, relations judged."""
    repeats: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    """Outcomes of further runs of the same cell on this side."""

    def stood(self, key: Key) -> Stood:
        """How a cell stands."""
        return Stood(self.records.get(key), self.repeats.get(key, ()))


def compare(
    baseline: Side,
    candidate: Side,
    scenarios: Mapping[str, Scenario],
    measured: Mapping[Key, Measured] | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """The candidate against the baseline; ``measured`` are cells that train on both, measured side by side."""
    return compare_stacks((baseline.name, candidate.name), [(baseline, candidate)], scenarios, measured, notes)


def compare_stacks(
    names: tuple[str, str],
    sides: Sequence[tuple[Side, Side]],
    scenarios: Mapping[str, Scenario],
    measured: Mapping[Key, Measured] | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """Several stacks in one comparison, each with its baseline and its candidate; ``names`` are those of the runs."""
    found: list[Changed | CellChange] = []
    missing: list[Cell] = []
    not_judged = 0
    for baseline, candidate in sides:
        for key in ordered(baseline, candidate, scenarios):
            each = changed(key, baseline, candidate)
            if each is not None:
                found.append(each)
            elif is_missing(baseline.stood(key), candidate.stood(key)):
                missing.append(cell_of(key, candidate))
            else:
                not_judged += 1
    cells = tuple(each.change if isinstance(each, Changed) else each for each in found)
    ratios = worst_first((measured or {}).values())
    training, misuse = counted(cells, misuse=False), counted(cells, misuse=True)
    passing = sum(any(end is not None and end.passed for end in (each.before, each.after)) for each in cells)
    counts = Found(training, misuse, len(missing), ratios, passing)
    answer = answered(counts)
    causes = groups((each for each in found if isinstance(each, Changed)), scenarios)
    return Comparison(
        schema=SCHEMA,
        verdict=answer,
        headline=headline(answer, counts, causes),
        baseline=names[0],
        candidate=names[1],
        pairs=tuple(pair(*each) for each in sides),
        training=training,
        misuse=misuse,
        not_judged=not_judged,
        missing=tuple(missing),
        groups=causes,
        cells=cells,
        measured=ratios,
        notes=tuple(notes),
    )


def ordered(baseline: Side, candidate: Side, scenarios: Mapping[str, Scenario]) -> list[Key]:
    """The cells of both sides: by device, then in the scenarios' own order; those of no scenario last and by name."""
    known = [(each.name, variant.name) for each in scenarios.values() for variant in each.variants]
    places = {pair: place for place, pair in enumerate(known)}

    def key(each: Key) -> tuple[str, int, Key]:
        return each.device, places.get((each.scenario, each.variant), len(places)), each

    return sorted({*baseline.records, *candidate.records}, key=key)


def cell_of(key: Key, side: Side) -> Cell:
    """The cell of a side."""
    return Cell(stack=side.name, scenario=key.scenario, variant=key.variant, device=key.device)


def changed(key: Key, baseline: Side, candidate: Side) -> Changed | CellChange | None:
    """What became of a cell, with the record that may say why it fails; None where there is nothing to compare."""
    before, after = baseline.stood(key), candidate.stood(key)
    change = change_of(before, after)
    if change is None:
        return None
    records = [record for record in (after.record, before.record) if record is not None]
    found = CellChange(
        cell=cell_of(key, candidate),
        role=records[0].role,
        change=change,
        before=ending(before),
        after=ending(after),
        why=why(change, before, after),
        flaky=before.flaky or after.flaky,
        spurious=before.spurious or after.spurious,
        drift=drift(before.record, after.record) if before.record is not None and after.record is not None else None,
    )
    side, failing = (baseline, before.record) if change is Change.FIXED else (candidate, after.record)
    return found if failing is None else Changed(found, failing, tuple(side.records.values()))


def ending(stood: Stood) -> Ending | None:
    """How a cell ended on a side."""
    record = stood.record
    if record is None:
        return None
    return Ending(
        outcome=record.outcome,
        passed=record.passed,
        gradient=record.gradient,
        message=record.message,
        repeats=stood.repeats,
    )


def pair(baseline: Side, candidate: Side) -> Pair:
    """Two sides, and what moved between them."""
    locks = baseline.lock, candidate.lock
    moved = packages_moved(locks[0], locks[1]) if locks[0] is not None and locks[1] is not None else None
    return Pair(baseline=facts(baseline), candidate=facts(candidate), moved=moved)


def facts(side: Side) -> SideFacts:
    """What the cells of a side were run with."""
    lock, ran = side.lock, [record for record in side.records.values() if record.observation is not None]

    def seen(value: Callable[[Record], str]) -> tuple[str, ...]:
        return tuple(sorted({value(record) for record in ran} - {""}))

    return SideFacts(
        name=side.name,
        python=lock.python if lock is not None else "",
        as_of=lock.as_of if lock is not None else None,
        lock=lock_input(lock) if lock is not None else "",
        requirements=lock.requirements if lock is not None else (),
        device=seen(lambda record: record.inputs.get("device", "")),
        build=seen(lambda record: record.build),
        failure=lock.failure.message if lock is not None and lock.failure is not None else None,
    )
