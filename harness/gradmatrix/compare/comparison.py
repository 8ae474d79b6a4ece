"""Two sides compared, cell by cell: what regressed, what is fixed, and whether an upgrade is safe.

Pure functions of records. The result is data: schema 1 of what ``compare`` and ``upgrade`` report.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import msgspec

from gradmatrix.core.model import Cell, Gradient, Role
from gradmatrix.core.observation import SCHEMA, Frame, Frozen
from gradmatrix.core.text import counted
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
from gradmatrix.judge.edge import Found
from gradmatrix.judge.relations import Drift, drift
from gradmatrix.judge.versions import PackageMove, packages_moved
from gradmatrix.measure.statistics import MEMORY_WORDS, TIME_WORDS, Key, Measured, Size
from gradmatrix.run.plan import lock_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gradmatrix.core.model import Lock, Record, Scenario
    from gradmatrix.judge.versions import Contents
    from gradmatrix.judge.wording import Diagnosis
    from gradmatrix.measure.statistics import Ratio


class Verdict(StrEnum):
    """The answer to "may I upgrade?"."""

    SAFE = "safe"
    REGRESSIONS = "regressions"
    INCONCLUSIVE = "inconclusive"
    SPEED_UNKNOWN = "speed unknown"
    """Nothing regressed, but the time or memory of a cell that was to be measured is not known."""


EXIT_CODES = {
    Verdict.SAFE: 0,
    Verdict.REGRESSIONS: 1,
    Verdict.INCONCLUSIVE: 3,
    Verdict.SPEED_UNKNOWN: 4,
}


class SideFacts(Frozen, frozen=True):
    """One side of a comparison: what its cells were run with."""

    name: str
    python: str
    as_of: dt.date | None
    """The day as of which the package index was read; null if the lock is unknown."""
    lock: str
    """The first digits of the lock's digest; empty if it is unknown."""
    requirements: tuple[str, ...]
    device: tuple[str, ...]
    """The processor architecture or the GPU's name that its cells ran on."""
    build: tuple[str, ...]
    """The build of torch that they ran with."""
    failure: str | None = None
    """Why there is no lock."""


class Pair(Frozen, frozen=True):
    """Two sides and what moved between them."""

    baseline: SideFacts
    candidate: SideFacts
    moved: tuple[PackageMove, ...] | None
    """The packages that differ; null if a lock is unknown."""


class Ending(Frozen, frozen=True):
    """How a cell ended on one side."""

    outcome: str
    """``trains`` or ``phase:reason``."""
    passed: bool | None
    """Null if it was not judged."""
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
    """Null if the baseline has no record of it."""
    after: Ending | None
    why: str = ""
    """Why it is inconclusive, or what changed beside the packages."""
    flaky: bool = False
    """Repeats of one side disagree."""
    spurious: bool = False
    """One side failed because of the machine: no network, a full disk, a lost process."""
    drift: Drift | None = None
    """Of a cell that trains on both sides."""


class Group(Frozen, frozen=True):
    """Cells that changed in the same way and have the same cause: phase, reason and place."""

    change: Change
    misuse: bool
    outcome: str
    """Of the side that fails: the candidate, or the baseline if the cells are fixed."""
    gradient: Gradient | None
    cause: str | None
    """The cause of the diagnosis."""
    module: str | None
    """The module that the diagnosis of the first cell names."""
    place: Frame | None
    """The responsible line of code, of the first cell; all cells share file and function."""
    text: tuple[str, ...]
    """The diagnosis of the first cell, or its message."""
    advice: str | None
    """What to do; if possible, what was seen to work on the same stack."""
    remedy: str | None
    """``SCENARIO/VARIANT`` of a remedy that trains on the side that fails."""
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
    """Of the cells that cannot train; they pass if the stack reports the mistake."""
    not_judged: int
    """Cells that no side judged, or whose device one side lacks; they are in no count."""
    missing: tuple[Cell, ...]
    """Cells of the baseline that the candidate has no record of; they are in no count."""
    groups: tuple[Group, ...]
    cells: tuple[CellChange, ...]
    measured: tuple[Measured, ...] = ()
    """Cells that were measured side by side, the worst first."""
    notes: tuple[str, ...] = ()
    """What else a reader must know: sentences."""
    bisected: tuple[Found, ...] = ()
    """Which release did it: one for each group that regressed, if that was asked for."""

    @property
    def exit_code(self) -> int:
        """0: safe. 1: a cell regressed, or needs more time or memory. 3: inconclusive.

        4: a cell that was to be measured may or may not need more time or memory.
        """
        return EXIT_CODES[self.verdict]

    @property
    def several(self) -> bool:
        """Whether more than one stack is compared; then cells are named with their stack."""
        return len(self.pairs) > 1


@dataclass(frozen=True)
class Results:
    """What one side ended with."""

    name: str
    lock: Lock | None
    """None if only the records are left."""
    records: Mapping[Key, Record]
    """The newest record of every cell, relations judged."""
    repeats: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    """Outcomes of further runs of the same cell on this side."""
    contents: Contents = field(default_factory=dict)
    """What tells its packages from others of the same version, as far as it is known."""

    def cell(self, key: Key) -> CellSide:
        """How a cell ended, with its repeats."""
        return CellSide(self.records.get(key), self.repeats.get(key, ()))


@dataclass(frozen=True)
class Changed:
    """A change of a cell, with the record that says why it fails."""

    change: CellChange
    failing: Record
    """The candidate's record; of a cell that is fixed, the baseline's."""
    others: tuple[Record, ...]
    """All records of the side that fails; one of them may be a remedy."""


def compare(
    baseline: Results,
    candidate: Results,
    scenarios: Mapping[str, Scenario],
    measured: Mapping[Key, Measured] | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """The candidate compared with the baseline. See :func:`compare_stacks`."""
    return compare_stacks(
        (baseline.name, candidate.name), [(baseline, candidate)], scenarios, measured, notes
    )


def compare_stacks(
    names: tuple[str, str],
    sides: Sequence[tuple[Results, Results]],
    scenarios: Mapping[str, Scenario],
    measured: Mapping[Key, Measured] | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """Several stacks in one comparison.

    Args:
        names: of the baseline and of the candidate
        sides: the results of both for each stack
        scenarios: by name, with remedies for what fails
        measured: cells that train on both sides, measured side by side
        notes: sentences for the report
    """
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
    training, misuse = counts_of(cells, misuse=False), counts_of(cells, misuse=True)
    passing = sum(
        any(end is not None and end.passed for end in (each.before, each.after)) for each in cells
    )
    basis = Basis(training, misuse, len(missing), ratios, passing)
    verdict = verdict_of(basis)
    causes = groups((each for each in found if isinstance(each, Changed)), scenarios)
    return Comparison(
        schema=SCHEMA,
        verdict=verdict,
        headline=headline(verdict, basis, causes),
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


def ordered(baseline: Results, candidate: Results, scenarios: Mapping[str, Scenario]) -> list[Key]:
    """The cells of both sides by device, in the order of the scenarios.

    Cells of scenarios that are not known come last, by name.
    """
    known = [(each.name, variant.name) for each in scenarios.values() for variant in each.variants]
    places = {pair: place for place, pair in enumerate(known)}

    def key(each: Key) -> tuple[str, int, Key]:
        return each.device, places.get((each.scenario, each.variant), len(places)), each

    return sorted({*baseline.records, *candidate.records}, key=key)


def cell_of(key: Key, side: Results) -> Cell:
    """The cell of a side."""
    return Cell(stack=side.name, scenario=key.scenario, variant=key.variant, device=key.device)


def changed(key: Key, baseline: Results, candidate: Results) -> Changed | CellChange | None:
    """What became of a cell, with the record that says why it fails; None if it was not judged."""
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
    """How a cell ended on a side; None without a record."""
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


def pair(baseline: Results, candidate: Results) -> Pair:
    """Two sides, and what moved between them."""
    locks = baseline.lock, candidate.lock
    moved = (
        packages_moved(locks[0], locks[1], (baseline.contents, candidate.contents))
        if locks[0] is not None and locks[1] is not None
        else None
    )
    return Pair(baseline=facts(baseline), candidate=facts(candidate), moved=moved)


def facts(side: Results) -> SideFacts:
    """What the cells of a side were run with."""
    lock = side.lock
    ran = [record for record in side.records.values() if record.observation is not None]

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


ORDER = (Change.REGRESSED, Change.BROKE_DIFFERENTLY, Change.FIXED, Change.NEW)
"""Changes that are reported in groups, in this order; new cells only if they fail."""
VARYING = re.compile(r"0x[0-9a-f]+|\d+")
"""Parts of messages that differ although the cause is the same: addresses, sizes, lines."""


def groups(changed: Iterable[Changed], scenarios: Mapping[str, Scenario]) -> tuple[Group, ...]:
    """The groups by change, misuse last; groups of one cause are together, the biggest first."""
    together: dict[tuple[str, ...], list[tuple[Changed, Diagnosis | None]]] = defaultdict(list)
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
    """Whether a change is reported in a group: its verdict changed, or it is new and fails."""
    fails = change.after is not None and change.after.passed is False
    return change.change in OF_VERDICTS or (change.change is Change.NEW and fails)


def shared(each: Changed, found: Diagnosis | None) -> tuple[str, ...]:
    """What all cells of a group have in common: cells with an equal value are one group."""
    record = each.failing
    misuse = "misuse" if record.role is Role.MISUSE else ""
    return each.change.change.value, misuse, record.outcome, *cause(record, found)


def cause(record: Record, found: Diagnosis | None) -> tuple[str, ...]:
    """The cause of a failure, with its file and function.

    If the place is in the script or is not known, the message is part of it. If a stack could not
    be installed or a library could not be imported, there is only the message.
    """
    if record.observation is None or record.observation.reached == "import":
        return (alike(record.message),)
    if found is None:
        return (record.cell.scenario,)
    if found.place is None:
        return found.cause.value, record.cell.scenario, alike(found.text[0])
    at = found.cause.value, found.place.file, found.place.function
    return (
        at
        if library_of(found.place) or found.cause is not Cause.EXCEPTION
        else (*at, alike(found.text[0]))
    )


def library_of(place: Frame) -> str:
    """The library that a line belongs to; empty for a script."""
    package, slash, _ = place.file.partition("/")
    return package if slash else ""


def alike(message: str) -> str:
    """A message without the parts that vary."""
    return VARYING.sub("…", message)


def group(
    members: list[tuple[Changed, Diagnosis | None]], scenarios: Mapping[str, Scenario]
) -> Group:
    """The group of these cells. Its texts are those of the first one."""
    first, found = members[0]
    record = first.failing
    misuse = record.role is Role.MISUSE
    curable = None if misuse else found  # misuse cannot train: its stack should report it
    remedy = (
        remedy_on_its_stack(curable.cause, scenarios, first.others, record.cell)
        if curable is not None
        else None
    )
    advice = advise(curable, remedy) if curable is not None else None
    library = library_of(found.place) if found is not None and found.place is not None else ""
    if advice and library and remedy is None:
        advice = f"This line is code of {library}, not yours: take another version, or report it."
    return Group(
        change=first.change.change,
        misuse=misuse,
        outcome=record.outcome,
        gradient=record.gradient,
        cause=found.cause.value if found is not None else None,
        module=found.module if found is not None else None,
        place=found.place if found is not None else None,
        text=found.text if found is not None else (record.message,),
        advice=advice,
        remedy=f"{remedy.cell.scenario}/{remedy.cell.variant}" if remedy is not None else None,
        cells=tuple(each.change.cell for each, _ in members),
    )


OPENING = {
    Verdict.SAFE: "Safe",
    Verdict.REGRESSIONS: "Do not upgrade yet",
    Verdict.INCONCLUSIVE: "Inconclusive",
    Verdict.SPEED_UNKNOWN: "Speed unknown",
}
MOST_MISSING = 0.1
"""If the candidate lacks a larger share of the baseline's cells, the verdict is never "safe"."""


@dataclass(frozen=True)
class Basis:
    """All that the verdict depends on."""

    training: Counts
    """Of the cells that should train."""
    misuse: Counts
    missing: int
    """Cells of the baseline that the candidate has no record of."""
    measured: Sequence[Measured]
    passing: int
    """Cells that pass on at least one side."""

    @property
    def compared(self) -> int:
        """How many cells were judged on both sides."""
        return on_both(self.training) + on_both(self.misuse)

    @property
    def inconclusive(self) -> int:
        """How many cells were run on both sides without a conclusion."""
        return self.training.inconclusive + self.misuse.inconclusive

    @property
    def lacks_too_much(self) -> bool:
        """Whether the candidate has run too few cells of the baseline."""
        return self.missing > MOST_MISSING * (self.missing + self.compared)


def counts_of(changes: Iterable[CellChange], *, misuse: bool) -> Counts:
    """How many cells changed in which way, of the misuse or of the rest."""
    found = Counter(each.change for each in changes if (each.role is Role.MISUSE) is misuse)
    return Counts(**{change.value.replace(" ", "_"): found[change] for change in Change})


def verdict_of(basis: Basis) -> Verdict:
    """The verdict: regressions if any cell regressed, or needs more time or memory.

    It is inconclusive if a cell is inconclusive, if no cell was judged on both sides, if none
    passes on either side, or if the candidate lacks too many cells. Otherwise the speed is unknown
    if a cell that was to be measured has no clear ratio.
    """
    grew = any(Size.MORE in sizes(each) for each in basis.measured)
    if grew or basis.training.regressed or basis.misuse.regressed:
        return Verdict.REGRESSIONS
    if basis.inconclusive or not basis.compared or not basis.passing or basis.lacks_too_much:
        return Verdict.INCONCLUSIVE
    return Verdict.SPEED_UNKNOWN if any(map(is_open, basis.measured)) else Verdict.SAFE


def is_open(measured: Measured) -> bool:
    """Whether a cell may or may not need more time or memory."""
    return measured.step_time is None or any(size.is_open for size in sizes(measured))


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


def headline(verdict: Verdict, basis: Basis, groups: Iterable[Group] = ()) -> str:
    """The verdict and its reasons in a sentence. ``groups`` give the number of causes."""
    causes = sum(each.change is Change.REGRESSED and not each.misuse for each in groups)
    parts = [*against(basis, causes), *in_favour(basis), *unmeasured(basis.measured)]
    if not basis.compared and not basis.inconclusive:
        parts.insert(0, "no cell was judged on both sides")
    elif basis.compared and not basis.passing:
        parts.insert(
            0, f"{counted(basis.compared, 'cell')} compared, and none passes on either side"
        )
    if verdict in (Verdict.SAFE, Verdict.SPEED_UNKNOWN):
        parts.insert(0, f"nothing regressed in {counted(basis.compared, 'cell')}")
    if verdict is Verdict.SAFE:
        parts.append(speed_judged(len(basis.measured)))
    return f"{OPENING[verdict]}: {', '.join(parts)}."


def against(basis: Basis, causes: int) -> Iterator[str]:
    """What is a reason against the candidate, or inconclusive."""
    regressed = basis.training.regressed
    if regressed:
        by = f" ({counted(causes, 'cause')})" if 0 < causes < regressed else ""
        yield f"{counted(regressed, 'cell')} regressed{by}"
    if basis.misuse.regressed:
        yield silenced(basis.misuse.regressed)
    for words, ratios in (
        (TIME_WORDS, times(basis.measured)),
        (MEMORY_WORDS, memories(basis.measured)),
    ):
        for size in (Size.MORE, Size.PROBABLY_MORE):
            grown = [ratio.ratio for ratio in ratios if ratio.verdict is size]
            if grown:
                yield f"{counted(len(grown), 'cell')} {words[size]} (at worst ×{max(grown):.3g})"
    if basis.inconclusive:
        yield f"{counted(basis.inconclusive, 'cell')} inconclusive"
    if basis.missing:
        were = "was" if basis.missing == 1 else "were"
        yield f"{counted(basis.missing, 'cell')} {were} not run on the candidate"


def silenced(count: int) -> str:
    """How many misuses the stack no longer reports."""
    if count == 1:
        return "1 mistake that used to be reported is now silent"
    return f"{count} mistakes that used to be reported are now silent"


def in_favour(basis: Basis) -> Iterator[str]:
    """What is a reason for the candidate, or no reason against it."""
    training, misuse = basis.training, basis.misuse
    if training.fixed:
        yield f"{training.fixed} fixed"
    if misuse.fixed:
        now = "mistake is" if misuse.fixed == 1 else "mistakes are"
        yield f"{misuse.fixed} silent {now} now reported"
    if training.broke_differently + misuse.broke_differently:
        yield f"{training.broke_differently + misuse.broke_differently} broke differently"
    if training.gone + misuse.gone:
        yield f"{training.gone + misuse.gone} gone (the candidate has no such feature)"
    for words, ratios in (
        (TIME_WORDS, times(basis.measured)),
        (MEMORY_WORDS, memories(basis.measured)),
    ):
        for size in (Size.LESS, Size.PROBABLY_LESS):
            shrunk = sum(ratio.verdict is size for ratio in ratios)
            if shrunk:
                yield f"{shrunk} {words[size]}"


def speed_judged(count: int) -> str:
    """For how many cells "safe" speaks of time and memory too."""
    if not count:
        return "speed was not measured"
    return f"{counted(count, 'cell')} measured and none slower"


def unmeasured(measured: Sequence[Measured]) -> Iterator[str]:
    """Cells that were measured without a result, and what a result would take."""
    cells = counted(len(measured), "cell")
    failed = [each for each in measured if each.step_time is None]
    if failed:
        reasons = {notice for each in failed for notice in each.notices}
        why = f"{reasons.pop()}; " if len(reasons) == 1 else ""
        yield (
            f"{len(failed)} of {cells} could not be measured ({why}to go without: --no-timing, or "
            "--speed-optional)"
        )
    unsure = [
        each for each in measured if each.step_time is not None and Size.INCONCLUSIVE in sizes(each)
    ]
    if unsure:
        enough = budget_words(sum(each.enough_s for each in measured))
        yield (
            f"speed or memory of {len(unsure)} of {cells} is unknown "
            f"(--budget {enough} would probably answer it)"
        )


def budget_words(seconds: float) -> str:
    """Seconds as a value of ``--budget``, rounded up."""
    return f"{math.ceil(seconds)}s" if seconds < 120 else f"{math.ceil(seconds / 60)}m"  # noqa: PLR2004


def times(measured: Iterable[Measured]) -> list[Ratio]:
    """The ratios of step times."""
    return [each.step_time for each in measured if each.step_time is not None]


def memories(measured: Iterable[Measured]) -> list[Ratio]:
    """The ratios of peak memory."""
    return [each.memory for each in measured if each.memory is not None]


SEVERITY = (
    Size.MORE,
    Size.PROBABLY_MORE,
    Size.INCONCLUSIVE,
    Size.SAME,
    Size.PROBABLY_LESS,
    Size.LESS,
)


def worst_first(measured: Iterable[Measured]) -> tuple[Measured, ...]:
    """The measured cells, those that need more time or memory first."""

    def key(each: Measured) -> tuple[int, float, str]:
        place = min(
            (SEVERITY.index(size) for size in sizes(each)),
            default=SEVERITY.index(Size.INCONCLUSIVE),
        )
        ratios = [ratio.ratio for ratio in (each.step_time, each.memory) if ratio is not None]
        return place, -max(ratios, default=0.0), str(each.key)

    return tuple(sorted(measured, key=key))


def as_json(comparison: Comparison) -> bytes:
    """The comparison as JSON; its JSON Schema is published."""
    return msgspec.json.format(msgspec.json.encode(comparison), indent=1) + b"\n"
