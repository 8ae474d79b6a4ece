"""The words of a comparison of two sides, as data: schema 1 of what ``compare`` and ``upgrade`` report.

Pure: cells that changed alike and share a cause, as one group: same phase, reason, and place.

Pure: "may I upgrade?" answered: the verdict and the headline of a comparison.

Pure: two sides, cell by cell: what regressed, what is fixed, what broke differently, and what cannot be said.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import msgspec

from gradmatrix.core.model import Cell, Gradient, Role
from gradmatrix.core.observation import SCHEMA, Frame, Frozen
from gradmatrix.judge.causes import Cause, advise, remedy_on_its_stack
from gradmatrix.judge.change import (
    OF_VERDICTS,
    CellSide,
    Change,
    change_of,
    explain_change,
    is_missing,
)
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.judge.relations import Drift, drift
from gradmatrix.judge.versions import PackageMove, packages_moved
from gradmatrix.measure.statistics import MEMORY_WORDS, TIME_WORDS, Key, Measured, Size
from gradmatrix.run.plan import lock_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gradmatrix.core.model import Record, Scenario
    from gradmatrix.judge.diagnosis import Diagnosis

    Shared = tuple[str, ...]
    "What the cells of a group have in common."
    from collections.abc import Callable, Iterator, Sequence

    from gradmatrix.core.model import Lock
    from gradmatrix.measure.statistics import Ratio


class Verdict(StrEnum):
    """The answer to "may I upgrade?"."""

    SAFE = "safe"
    REGRESSIONS = "regressions"
    INCONCLUSIVE = "inconclusive"


EXIT_CODES = {Verdict.SAFE: 0, Verdict.REGRESSIONS: 1, Verdict.INCONCLUSIVE: 3}


class SideFacts(Frozen, frozen=True):
    """One side of a comparison: what its cells were run with."""

    name: str
    python: str
    as_of: dt.date | None
    """The day the package index was read as of; null where the lock is not known."""
    lock: str
    """The first digits of the lock's digest; empty where it is not known."""
    requirements: tuple[str, ...]
    device: tuple[str, ...]
    """The processor architecture or the GPU's name that its cells ran on."""
    build: tuple[str, ...]
    """The build of torch that they ran with."""
    failure: str | None = None
    """Why the side could not be resolved."""


class Pair(Frozen, frozen=True):
    """Two sides and what moved between them."""

    baseline: SideFacts
    candidate: SideFacts
    moved: tuple[PackageMove, ...] | None
    """The packages that differ; null where a lock is not known."""


class Ending(Frozen, frozen=True):
    """How a cell ended on one side."""

    outcome: str
    """``trains`` or ``phase:reason``."""
    passed: bool | None
    """Null where it was not judged."""
    gradient: Gradient | None
    message: str
    repeats: tuple[str, ...] = ()
    """Outcomes of further runs of the same cell on this side."""


class CellChange(Frozen, frozen=True):
    """What became of one cell."""

    cell: Cell
    """Its stack is the candidate's."""
    role: Role
    change: Change
    before: Ending | None
    """Null where the baseline has no record of it."""
    after: Ending | None
    why: str = ""
    """What is to be known of the change: why it is inconclusive, what else than the packages changed."""
    flaky: bool = False
    """Repeats of one side disagree."""
    spurious: bool = False
    """A side ended in a failure of the machine: no network, a full disk, a lost process."""
    drift: Drift | None = None
    """Of a cell that trains on both sides."""


class Group(Frozen, frozen=True):
    """Cells that changed alike and share a cause: phase, reason and place."""

    change: Change
    misuse: bool
    outcome: str
    """Of the side that fails: the candidate, or for what is fixed the baseline."""
    gradient: Gradient | None
    cause: str | None
    """The cause of the diagnosis."""
    module: str | None
    """The first module that it concerns, of the first cell."""
    place: Frame | None
    """The responsible line of code, of the first cell; all cells share file and function."""
    text: tuple[str, ...]
    """The diagnosis of the first cell; else its message."""
    advice: str | None
    """What to do about it: what was seen to work on the same stack, where there is such a cell."""
    remedy: str | None
    """``SCENARIO/VARIANT`` that was seen to train on the side that fails."""
    cells: tuple[Cell, ...]


class Counts(Frozen, frozen=True):
    """How many cells changed in which way."""

    regressed: int = 0
    broke_differently: int = 0
    fixed: int = 0
    inconclusive: int = 0
    judged_elsewhere: int = 0
    new: int = 0
    gone: int = 0
    unchanged: int = 0


class Comparison(Frozen, frozen=True):
    """A whole comparison: everything that a report says."""

    schema: Literal[1]
    verdict: Verdict
    headline: str
    """The answer in a sentence or two."""
    baseline: str
    candidate: str
    pairs: tuple[Pair, ...]
    """One, or one for each stack that two runs share."""
    training: Counts
    """Of the cells that should train."""
    misuse: Counts
    """Of the cells that cannot train and pass where the stack says so."""
    not_judged: int
    """Cells that neither side judged, or whose device one side does not have; they are in none of the counts."""
    missing: tuple[Cell, ...]
    """Cells of the baseline of which the candidate has no record: nothing is said of them, and they are not counted."""
    groups: tuple[Group, ...]
    cells: tuple[CellChange, ...]
    measured: tuple[Measured, ...] = ()
    """Cells that were measured side by side, the worst first."""
    notes: tuple[str, ...] = ()
    """What else a reader must know: sentences."""

    @property
    def exit_code(self) -> int:
        """0 safe, 1 something regressed or got slower or hungrier, 3 cells are inconclusive, or were not run."""
        return EXIT_CODES[self.verdict]

    @property
    def several(self) -> bool:
        """Whether more than one stack is compared, so that a cell is named with its stack."""
        return len(self.pairs) > 1


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
            found = (
                diagnose(each.failing.observation) if each.failing.observation is not None else None
            )
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


def group(
    members: list[tuple[Changed, Diagnosis | None]], scenarios: Mapping[str, Scenario]
) -> Group:
    """The group of these, told by its first cell."""
    first, found = members[0]
    record = first.failing
    misuse = record.role is Role.MISUSE
    curable = (
        found if not misuse else None
    )  # it is meant to fail: what is wrong is that the stack is silent
    remedy = (
        remedy_on_its_stack(curable.cause, scenarios, first.others, record.cell)
        if curable is not None
        else None
    )
    return Group(
        change=first.change.change,
        misuse=misuse,
        outcome=record.outcome,
        gradient=record.gradient,
        cause=found.cause.value if found is not None else None,
        module=found.module if found is not None else None,
        place=found.place if found is not None else None,
        text=found.text if found is not None else (record.message,),
        advice=advise(curable, remedy) if curable is not None else None,
        remedy=f"{remedy.cell.scenario}/{remedy.cell.variant}" if remedy is not None else None,
        cells=tuple(each.change.cell for each, _ in members),
    )


OPENING = {
    Verdict.SAFE: "Safe",
    Verdict.REGRESSIONS: "Do not upgrade yet",
    Verdict.INCONCLUSIVE: "Open",
}


MOST_MISSING = 0.1
"""The share of the baseline's cells that the candidate need not have run; where more are missing, nothing is safe."""


@dataclass(frozen=True)
class Found:
    """All that the answer depends on."""

    training: Counts
    """Of the cells that should train."""
    misuse: Counts
    missing: int
    """Cells of the baseline of which the candidate has no record."""
    measured: Sequence[Measured]
    passing: int
    """Cells that pass on a side: where none does, nothing could have regressed."""

    @property
    def compared(self) -> int:
        """How many cells were judged on both sides."""
        return on_both(self.training) + on_both(self.misuse)

    @property
    def inconclusive(self) -> int:
        """How many cells were run on both sides, and nothing can be said of them."""
        return self.training.inconclusive + self.misuse.inconclusive

    @property
    def lacks_too_much(self) -> bool:
        """Whether the candidate has run too little of what the baseline has."""
        return self.missing > MOST_MISSING * (self.missing + self.compared)


def counted(changes: Iterable[CellChange], *, misuse: bool) -> Counts:
    """How many cells changed in which way, of the misuse or of the rest."""
    found = Counter(each.change for each in changes if (each.role is Role.MISUSE) is misuse)
    return Counts(**{change.value.replace(" ", "_"): found[change] for change in Change})


def answered(found: Found) -> Verdict:
    """Regressions of cells, time or memory first; then what cannot be said of a cell.

    A ratio that is inconclusive, or could not be had, is told and does not count: its budget is the user's choice, and
    more of it would not make a cell fail. Where no cell was judged on both sides, none passes on either, or the
    candidate has not run what the baseline has, nothing is safe.
    """
    grew = any(Size.MORE in sizes(each) for each in found.measured)
    if grew or found.training.regressed or found.misuse.regressed:
        return Verdict.REGRESSIONS
    if found.inconclusive or not found.compared or not found.passing or found.lacks_too_much:
        return Verdict.INCONCLUSIVE
    return Verdict.SAFE


def on_both(counts: Counts) -> int:
    """How many cells were judged on both sides."""
    return (
        counts.regressed
        + counts.broke_differently
        + counts.fixed
        + counts.judged_elsewhere
        + counts.unchanged
    )


def sizes(measured: Measured) -> tuple[Size, ...]:
    """The verdicts of a measured cell."""
    return tuple(
        ratio.verdict for ratio in (measured.step_time, measured.memory) if ratio is not None
    )


def headline(verdict: Verdict, found: Found, groups: Iterable[Group] = ()) -> str:
    """The answer, with what speaks for it first; ``groups`` say by how many causes cells regressed."""
    causes = sum(each.change is Change.REGRESSED and not each.misuse for each in groups)
    parts = [*against(found, causes), *in_favour(found), *unmeasured(found.measured)]
    if not found.compared and not found.inconclusive:
        parts.insert(0, "no cell was judged on both sides")
    elif found.compared and not found.passing:
        parts.insert(0, f"{cells(found.compared)} compared, and none passes on either side")
    if verdict is Verdict.SAFE:
        parts.insert(0, f"nothing regressed in {cells(found.compared)}")
    return f"{OPENING[verdict]}: {', '.join(parts)}."


def against(found: Found, causes: int) -> Iterator[str]:
    """What speaks against the candidate, and what is open."""
    regressed = found.training.regressed
    if regressed:
        by = f" ({causes} cause{'s' if causes > 1 else ''})" if 0 < causes < regressed else ""
        yield f"{cells(regressed)} regressed{by}"
    if found.misuse.regressed:
        yield f"{found.misuse.regressed} misuse{'s are' if found.misuse.regressed > 1 else ' is'} not told of any more"
    for words, ratios in (
        (TIME_WORDS, times(found.measured)),
        (MEMORY_WORDS, memories(found.measured)),
    ):
        grown = [ratio for ratio in ratios if ratio.verdict is Size.MORE]
        if grown:
            worst = max(ratio.ratio for ratio in grown)
            yield f"{cells(len(grown))} {words[Size.MORE]} (at worst ×{worst:.3g})"
    if found.inconclusive:
        yield f"{cells(found.inconclusive)} inconclusive"
    if found.missing:
        yield f"{cells(found.missing)} {'was' if found.missing == 1 else 'were'} not run on the candidate"


def in_favour(found: Found) -> Iterator[str]:
    """What speaks for the candidate, or not against it."""
    training, misuse = found.training, found.misuse
    if training.fixed:
        yield f"{training.fixed} fixed"
    if misuse.fixed:
        yield f"{misuse.fixed} misuse{'s' if misuse.fixed > 1 else ''} told of now"
    if training.broke_differently + misuse.broke_differently:
        yield f"{training.broke_differently + misuse.broke_differently} broke differently"
    if training.gone + misuse.gone:
        yield f"{training.gone + misuse.gone} gone (the candidate has no such feature)"
    for words, ratios in (
        (TIME_WORDS, times(found.measured)),
        (MEMORY_WORDS, memories(found.measured)),
    ):
        shrunk = sum(ratio.verdict is Size.LESS for ratio in ratios)
        if shrunk:
            yield f"{shrunk} {words[Size.LESS]}"


def unmeasured(measured: Sequence[Measured]) -> Iterator[str]:
    """The cells whose speed or memory is not known, though they were to be measured."""
    failed = sum(each.step_time is None for each in measured)
    if failed:
        yield f"{failed} of {cells(len(measured))} could not be measured"
    unsure = sum(
        Size.INCONCLUSIVE in sizes(each) for each in measured if each.step_time is not None
    )
    if unsure:
        yield f"speed or memory of {unsure} of {len(measured)} measured cells is open"


def times(measured: Iterable[Measured]) -> list[Ratio]:
    """The ratios of step times."""
    return [each.step_time for each in measured if each.step_time is not None]


def memories(measured: Iterable[Measured]) -> list[Ratio]:
    """The ratios of peak memory."""
    return [each.memory for each in measured if each.memory is not None]


def cells(count: int) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{count} cell{'' if count == 1 else 's'}"


SEVERITY = (Size.MORE, Size.INCONCLUSIVE, Size.SAME, Size.LESS)


def worst_first(measured: Iterable[Measured]) -> tuple[Measured, ...]:
    """What is slower or hungrier first, by how much, and what is faster or leaner last."""

    def key(each: Measured) -> tuple[int, float, str]:
        place = min(
            (SEVERITY.index(size) for size in sizes(each)),
            default=SEVERITY.index(Size.INCONCLUSIVE),
        )
        ratios = [ratio.ratio for ratio in (each.step_time, each.memory) if ratio is not None]
        return place, -max(ratios, default=0.0), str(each.key)

    return tuple(sorted(measured, key=key))


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

    def cell(self, key: Key) -> CellSide:
        """How a cell stands."""
        return CellSide(self.records.get(key), self.repeats.get(key, ()))


def compare(
    baseline: Side,
    candidate: Side,
    scenarios: Mapping[str, Scenario],
    measured: Mapping[Key, Measured] | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """The candidate against the baseline; ``measured`` are cells that train on both, measured side by side."""
    return compare_stacks(
        (baseline.name, candidate.name), [(baseline, candidate)], scenarios, measured, notes
    )


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
            elif is_missing(baseline.cell(key), candidate.cell(key)):
                missing.append(cell_of(key, candidate))
            else:
                not_judged += 1
    cells = tuple(each.change if isinstance(each, Changed) else each for each in found)
    ratios = worst_first((measured or {}).values())
    training, misuse = counted(cells, misuse=False), counted(cells, misuse=True)
    passing = sum(
        any(end is not None and end.passed for end in (each.before, each.after)) for each in cells
    )
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
    before, after = baseline.cell(key), candidate.cell(key)
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
        why=explain_change(change, before, after),
        flaky=before.flaky or after.flaky,
        spurious=before.spurious or after.spurious,
        drift=drift(before.record, after.record)
        if before.record is not None and after.record is not None
        else None,
    )
    side, failing = (
        (baseline, before.record) if change is Change.FIXED else (candidate, after.record)
    )
    return found if failing is None else Changed(found, failing, tuple(side.records.values()))


def ending(side: CellSide) -> Ending | None:
    """How a cell ended on a side."""
    record = side.record
    if record is None:
        return None
    return Ending(
        outcome=record.outcome,
        passed=record.passed,
        gradient=record.gradient,
        message=record.message,
        repeats=side.repeats,
    )


def pair(baseline: Side, candidate: Side) -> Pair:
    """Two sides, and what moved between them."""
    locks = baseline.lock, candidate.lock
    moved = (
        packages_moved(locks[0], locks[1])
        if locks[0] is not None and locks[1] is not None
        else None
    )
    return Pair(baseline=facts(baseline), candidate=facts(candidate), moved=moved)


def facts(side: Side) -> SideFacts:
    """What the cells of a side were run with."""
    lock, ran = (
        side.lock,
        [record for record in side.records.values() if record.observation is not None],
    )

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


def as_json(comparison: Comparison) -> bytes:
    """All of it, as the JSON Schema says."""
    return msgspec.json.format(msgspec.json.encode(comparison), indent=1) + b"\n"
