"""What a report says about a comparison, as data. Every form of the report shows the same data.

The parts are: the names of cells, the sections with causes and their cells, the drift of losses,
speed and memory, and the two sides with the packages that changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gradmatrix.compare.comparison import library_of
from gradmatrix.core.model import Role
from gradmatrix.core.outcomes import gradient_note
from gradmatrix.core.text import counted, tally
from gradmatrix.judge.change import Change
from gradmatrix.measure.statistics import FEWEST_FOR_SAME, MEMORY_WORDS, TIME_WORDS, Size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradmatrix.compare.comparison import CellChange, Comparison, Ending, Group, Pair, SideFacts
    from gradmatrix.core.model import Cell
    from gradmatrix.judge.relations import Drift
    from gradmatrix.judge.versions import PackageMove
    from gradmatrix.measure.statistics import Measured, Ratio


@dataclass(frozen=True)
class Together:
    """Cells of one scenario."""

    head: str
    """The scenario, with the device or the variant where cells differ in it."""
    members: tuple[str, ...]
    """Its variants, or the stacks of the variant."""

    def __str__(self) -> str:
        return f"{self.head}: {', '.join(self.members)}"


@dataclass(frozen=True)
class Names:
    """How the cells of one comparison are named: parts that all of them share are left out."""

    several_stacks: bool
    several_devices: bool

    @classmethod
    def of(cls, comparison: Comparison) -> Names:
        """Return how the cells of a comparison are named."""
        devices = {
            cell.device for cell in (*(each.cell for each in comparison.cells), *comparison.missing)
        }
        return cls(comparison.several, len(devices) > 1)

    def together(self, cells: Iterable[Cell]) -> tuple[Together, ...]:
        """Group cells by scenario, in the order in which they come."""
        found: dict[str, list[str]] = defaultdict(list)
        for cell in cells:
            device = f" ({cell.device})" if self.several_devices else ""
            if self.several_stacks:
                found[f"{cell.scenario}/{cell.variant}{device}"].append(cell.stack)
            else:
                found[f"{cell.scenario}{device}"].append(cell.variant)
        return tuple(Together(head, tuple(members)) for head, members in found.items())


MARKS = {
    Change.REGRESSED: "✗",
    Change.BROKE_DIFFERENTLY: "✗",
    Change.FIXED: "✓",
    Change.INCONCLUSIVE: "?",
    Change.ELSEWHERE: "–",
    Change.NEW: "⊕",
    Change.GONE: "⊖",
    Change.UNCHANGED: "=",
}
TITLES = {
    Change.REGRESSED: "Regressed",
    Change.BROKE_DIFFERENTLY: "Broke differently",
    Change.FIXED: "Fixed",
    Change.INCONCLUSIVE: "Inconclusive",
    Change.ELSEWHERE: "Judged elsewhere",
    Change.NEW: "New",
    Change.GONE: "Gone",
}
NOTES = {
    Change.REGRESSED: "Passed on the baseline, fails on the candidate.",
    Change.BROKE_DIFFERENTLY: "Fails on both sides, but differently on the candidate.",
    Change.FIXED: (
        "Failed on the baseline, passes on the candidate. Each entry shows what was wrong."
    ),
    Change.INCONCLUSIVE: (
        "These cells allow no conclusion. Run them again, or find out why they are flaky."
    ),
    Change.ELSEWHERE: (
        "The verdict differs, but the machine or the build of torch differs too, so this says "
        "nothing about the packages."
    ),
    Change.NEW: "Judged on the candidate only.",
    Change.GONE: "Judged on the baseline only: the candidate has no such feature.",
}
MISUSE = "Does the stack tell you?"
MISUSE_NOTE = (
    "Misuse cannot train. It passes if the stack reports the mistake, and regresses if the stack "
    "becomes silent."
)
MISUSE_WORDS = {Change.REGRESSED: "silent now", Change.FIXED: "reported now"}
BOTH = "Fail on both sides"
BOTH_NOTE = "They fail in the same way, so this is no reason against the candidate."
SPURIOUS = "Failures of the machine"
SPURIOUS_NOTE = (
    "The network failed, the disk was full, or the process was lost. This says nothing about the "
    "stacks, and is never a regression."
)


MOST_BEFORE = 3
"""The most earlier outcomes that are named in a group."""


@dataclass(frozen=True)
class Item:
    """One cause with its cells."""

    change: Change
    title: str
    lines: tuple[str, ...]
    """Sentences. Names of modules and code are in backticks."""
    advice: str | None
    cells: tuple[Together, ...]
    count: int

    @property
    def mark(self) -> str:
        """The symbol of the change."""
        return MARKS[self.change]


@dataclass(frozen=True)
class Section:
    """Causes under one title."""

    title: str
    note: str
    items: tuple[Item, ...]

    @property
    def is_urgent(self) -> bool:
        """Whether someone must look at it before upgrading."""
        return any(item.change in {Change.REGRESSED, Change.INCONCLUSIVE} for item in self.items)

    @property
    def count(self) -> int:
        """The number of its cells."""
        return sum(item.count for item in self.items)


def sections(comparison: Comparison) -> tuple[Section, ...]:
    """Return the sections of a report, the urgent ones first.

    There is one for each change, one for misuse, one for failures of the machine, and one for cells
    that fail on both sides. Unchanged cells that pass are only counted, in ``summary``.
    """
    make = Sections(comparison)
    found = [make.of_change(change) for change in TITLES]
    found += [make.of_misuse(), make.of_the_machine(), make.of_both_sides()]
    return tuple(
        sorted((section for section in found if section.items), key=lambda each: not each.is_urgent)
    )


class Sections:
    """Makes the sections of one comparison."""

    def __init__(self, comparison: Comparison) -> None:
        self._groups = comparison.groups
        self._names = Names.of(comparison)
        self._by_cell = {each.cell: each for each in comparison.cells}
        grouped = {cell for group in comparison.groups for cell in group.cells}
        self._single = [
            each
            for each in comparison.cells
            if each.change is not Change.UNCHANGED and each.cell not in grouped
        ]

    def of_change(self, change: Change) -> Section:
        """Return the cells with a change, without misuse."""
        return Section(TITLES[change], NOTES[change], tuple(self._items(change, misuse=False)))

    def of_misuse(self) -> Section:
        """Return every changed misuse."""
        items = [item for change in TITLES for item in self._items(change, misuse=True)]
        return Section(MISUSE, MISUSE_NOTE, tuple(items))

    def of_the_machine(self) -> Section:
        """Return the cells of which one side ended in a failure of the machine."""
        cells = [each for each in self._single if each.spurious]
        return Section(SPURIOUS, SPURIOUS_NOTE, tuple(self._by_reason(cells)))

    def of_both_sides(self) -> Section:
        """Return the cells that fail in the same way on both sides."""
        cells = [
            each
            for each in self._by_cell.values()
            if each.change is Change.UNCHANGED and fails(each.after)
        ]
        silent = [each for each in cells if each.role is Role.MISUSE]
        items = [
            *self._by_reason(each for each in cells if each.role is not Role.MISUSE),
            *(
                replace(each, title=f"misuse, silent: {each.title}")
                for each in self._by_reason(silent)
            ),
        ]
        return Section(BOTH, BOTH_NOTE, tuple(items))

    def _items(self, change: Change, *, misuse: bool) -> Iterator[Item]:
        yield from (
            self._grouped(each)
            for each in self._groups
            if (each.change, each.misuse) == (change, misuse)
        )
        cells = [
            each
            for each in self._single
            if each.change is change and (each.role is Role.MISUSE) is misuse and not each.spurious
        ]
        yield from self._by_reason(cells)

    def _grouped(self, group: Group) -> Item:
        members = [self._by_cell[cell] for cell in group.cells]
        is_over = group.change is Change.FIXED
        why = () if group.misuse and is_over else group.text[:1] if is_over else group.text
        return Item(
            change=group.change,
            title=title(group),
            lines=(*said(group, members), *why, *notes(members)),
            advice=None if is_over else group.advice,
            cells=self._names.together(group.cells),
            count=len(group.cells),
        )

    def _by_reason(self, cells: Iterable[CellChange]) -> Iterator[Item]:
        together: dict[tuple[Change, str, str], list[CellChange]] = defaultdict(list)
        for each in cells:
            together[each.change, outcomes_of(each), each.why].append(each)
        for (change, went, why), members in together.items():
            yield Item(
                change=change,
                title=went,
                lines=(*((why,) if why else ()), *messages(members)),
                advice=None,
                cells=self._names.together(each.cell for each in members),
                count=len(members),
            )


def title(group: Group) -> str:
    """Return a group on one line: how it fails, and where."""
    words = MISUSE_WORDS.get(group.change, group.change.value) if group.misuse else ""
    note = gradient_note(group.outcome, group.gradient)
    gradient = f" ({note})" if note else ""
    at = ""
    if group.place is not None:
        at = f" at {group.place.file}, {group.place.function}"
        library = library_of(group.place)
        at += f" (code of {library})" if library else ""
    return f"{f'{words}: ' if words else ''}{group.outcome}{gradient}{at}"


def said(group: Group, members: Sequence[CellChange]) -> Iterator[str]:
    """Yield the message of the side that reports a misuse, or how a cell failed before."""
    first = members[0]
    if group.misuse and group.change is Change.REGRESSED and first.before is not None:
        yield f"The baseline said: {quoted(first.before)}. The candidate says nothing."
    if group.misuse and group.change is Change.FIXED and first.after is not None:
        yield f"The candidate says: {quoted(first.after)}. The baseline said nothing."
    if group.change is Change.BROKE_DIFFERENTLY:
        before = [
            f"{each.before.outcome}, {quoted(each.before)}."
            for each in members
            if each.before is not None
        ]
        yield from (f"Before: {each}" for each in tuple(dict.fromkeys(before))[:MOST_BEFORE])


def quoted(ending: Ending) -> str:
    """Return the last message, or the outcome if there is none."""
    return (ending.message or ending.outcome).rstrip(".")


def notes(changes: Iterable[CellChange]) -> Iterator[str]:
    """Yield each distinct remark about some changes."""
    return (each for each in dict.fromkeys(change.why for change in changes) if each)


def messages(changes: Iterable[CellChange]) -> tuple[str, ...]:
    """Return the first distinct messages of the cells that fail on the candidate."""
    said = dict.fromkeys(
        each.after.message for each in changes if each.after is not None and fails(each.after)
    )
    return tuple(each for each in said if each)[:MOST_BEFORE]


def outcomes_of(each: CellChange) -> str:
    """Return both outcomes, or the only one."""
    return " → ".join(
        dict.fromkeys(ending.outcome for ending in (each.before, each.after) if ending is not None)
    )


def summary(comparison: Comparison) -> str:
    """Return how many cells there are of each change, unchanged ones included."""
    found = Counter(each.change for each in comparison.cells)
    counts = tally({change.value: found[change] for change in Change}) or "nothing to compare"
    failing = sum(
        each.change is Change.UNCHANGED and fails(each.after) for each in comparison.cells
    )
    text = f"{counted(len(comparison.cells), 'cell')}: {counts}"
    if failing:
        text += f" ({failing} of them fail{'s' if failing == 1 else ''} on both sides)"
    if comparison.not_judged:
        text += f"; {comparison.not_judged} more cannot be judged (no such feature or device)"
    if comparison.missing:
        text += f"; {len(comparison.missing)} more not run on the candidate"
    return f"{text}."


def fails(ending: Ending | None) -> bool:
    """Whether a side judged a cell and it failed."""
    return ending is not None and ending.passed is False


CLOSE = 1e-3
"""The summary counts relative differences up to this separately."""


@dataclass(frozen=True)
class Drifted:
    """Cells of a scenario whose losses drifted in the same way."""

    words: str
    largest: float
    cells: tuple[Together, ...]


def drifted(comparison: Comparison) -> tuple[Drifted, ...]:
    """Return the cells that train on both sides, those with the largest difference first."""
    names = Names.of(comparison)
    together: dict[tuple[str, str], list[tuple[Cell, Drift]]] = defaultdict(list)
    for each in comparison.cells:
        if each.drift is not None:
            together[each.cell.scenario, str(each.drift)].append((each.cell, each.drift))
    found = [
        Drifted(
            words,
            max(drift.largest for _, drift in members),
            names.together(cell for cell, _ in members),
        )
        for (_, words), members in together.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.largest))


def drift_summary(comparison: Comparison) -> str:
    """Return how many cells have identical, close and other losses.

    It is empty if no cell trains on both sides.
    """
    largest = [each.drift.largest for each in comparison.cells if each.drift is not None]
    if not largest:
        return ""
    identical = sum(each == 0 for each in largest)
    close = sum(0 < each <= CLOSE for each in largest)
    counts = {
        "identical": identical,
        f"within {CLOSE:g}": close,
        "further apart": len(largest) - identical - close,
    }
    cells = counted(len(largest), "cell")
    return f"Losses from the same seed in {cells} that train on both sides: {tally(counts)}."


NOT_MEASURED = (
    "Speed and memory were not measured side by side. Step times of separate runs cannot be "
    "compared, because they depend on the machine and its load. gradmatrix upgrade measures both "
    "sides in one run, unless --no-timing is given."
)
MEBIBYTE = 2**20


@dataclass(frozen=True)
class RatioRow:
    """One quantity of one cell."""

    cell: str
    quantity: str
    verdict: str
    size: Size
    ratio: str
    """The ratio with its interval."""
    values: str
    """Medians of baseline and candidate."""
    noise: str
    """The difference between two halves of the baseline's own servers (A/A)."""
    why: str
    """Why it is inconclusive, and what else was noticed."""


def ratio_rows(comparison: Comparison) -> tuple[RatioRow, ...]:
    """Return a row for each measured quantity, the worst cells first."""
    if nothing_measured(comparison):
        return ()
    return tuple(row for each in comparison.measured for row in rows_of(each))


def nothing_measured(comparison: Comparison) -> bool:
    """Return whether no cell has a step time or a peak of memory."""
    return all(each.step_time is None and each.memory is None for each in comparison.measured)


def rows_of(measured: Measured) -> Iterator[RatioRow]:
    """Yield the rows of a cell."""
    kinds = (
        ("time per step", measured.step_time, TIME_WORDS),
        ("peak memory", measured.memory, MEMORY_WORDS),
    )
    for quantity, ratio, words in kinds:
        if ratio is not None:
            yield row(measured, quantity, ratio, words)
    if measured.step_time is None:
        yield RatioRow(
            cell=str(measured.key),
            quantity="time per step",
            verdict="not measured",
            size=Size.INCONCLUSIVE,
            ratio="–",
            values="–",
            noise="–",
            why=" ".join(measured.notices),
        )


def row(measured: Measured, quantity: str, ratio: Ratio, words: Mapping[Size, str]) -> RatioRow:
    """Return the row of one ratio."""
    unit = milliseconds if quantity == "time per step" else mebibytes
    reasons = (inconclusive(measured, ratio), *measured.notices)
    return RatioRow(
        cell=str(measured.key),
        quantity=quantity,
        verdict=words[ratio.verdict],
        size=ratio.verdict,
        ratio=f"×{ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})",
        values=f"{unit(ratio.baseline)} → {unit(ratio.candidate)}",
        noise=f"×{ratio.floor:.3f}",
        why=" ".join(each for each in reasons if each),
    )


def inconclusive(measured: Measured, ratio: Ratio) -> str:
    """Return why a ratio has no verdict; empty if it has one."""
    if not ratio.verdict.is_open:
        return ""
    text = "The measurement stopped"
    if measured.stopped == "budget":
        text = f"The time budget ended after {measured.spent_s:.0f} s,"
    if is_within(ratio):
        text += f" before {FEWEST_FOR_SAME} servers of each side were measured."
        return f"{text} “Same” takes so many, because some servers may be slower than others."
    text += f" before the interval was completely inside or outside ±{ratio.margin:.1%}."
    if ratio.among > 1:
        text += (
            " It is wider than for a single comparison, so that all "
            f"{ratio.among} of this run hold together."
        )
    if ratio.floor - 1 > ratio.margin:
        text += " The baseline differs from itself by more than the margin."
    return text


def is_within(ratio: Ratio) -> bool:
    """Whether the whole interval is inside the margin."""
    return max(1 / ratio.low, ratio.high) <= 1 + ratio.margin


def milliseconds(seconds: float) -> str:
    """Format the time of a step."""
    return f"{seconds * 1000:.3g} ms"


def mebibytes(amount: float) -> str:
    """Format an amount of memory."""
    return f"{amount / MEBIBYTE:,.0f} MiB"


def measuring(comparison: Comparison) -> str:
    """Return how speed and memory were measured, or why they were not."""
    measured = comparison.measured
    if not measured:
        return NOT_MEASURED
    if nothing_measured(comparison):
        why = (f"{each.key}: {' '.join(each.notices)}" for each in measured)
        return f"Nothing could be measured. {'; '.join(why)}."
    spent = sum(each.spent_s for each in measured)
    ratio = next((one.step_time for one in measured if one.step_time is not None), None)
    memory = next((one.memory for one in measured if one.memory is not None), None)
    text = (
        "Ratios are candidate / baseline. Both sides ran at the same time in alternating blocks: "
        f"{counted(len(measured), 'cell')} in {spent:.0f} s."
    )
    if ratio is not None:
        among = f", all {ratio.among} together" if ratio.among > 1 else ""
        of_memory = f" (memory: ±{memory.margin:.1%})" if memory is not None else ""
        text += (
            f" Intervals have {ratio.confidence:.1%} confidence{among}. "
            f"“Same” means within ±{ratio.margin:.1%}{of_memory}."
        )
    if any(each.stopped == "clear" for each in measured):
        text += (
            " Where measuring stopped early, because the verdict was clear, the ratio is a little "
            "too far from 1 on average; its interval allows for that."
        )
    return f"{text} Noise is the difference of the baseline from itself in the same run (A/A)."


MOST_MISSING_NAMED = 12
"""If more cells were not run, they are counted by scenario instead of named."""


def described(side: SideFacts) -> str:
    """Return a side with its Python and the day of its lock."""
    facts = [f"Python {side.python}"] if side.python else []
    facts += [f"as of {side.as_of}"] if side.as_of is not None else []
    return f"{side.name} ({', '.join(facts)})" if facts else side.name


def sides(comparison: Comparison) -> str:
    """Return what is compared, on one line."""
    if comparison.several:
        return f"{comparison.baseline} → {comparison.candidate}, {len(comparison.pairs)} stacks"
    (pair,) = comparison.pairs
    return f"{described(pair.baseline)} → {described(pair.candidate)}"


def pairs_shown(comparison: Comparison) -> tuple[Pair, ...]:
    """Return the pairs to show: of several stacks, only those with changed or unknown packages."""
    if not comparison.several:
        return comparison.pairs
    return tuple(pair for pair in comparison.pairs if pair.moved is None or pair.moved)


def unmoved(comparison: Comparison) -> str:
    """Return in how many of several stacks no package changed; empty if there are none."""
    count = len(comparison.pairs) - len(pairs_shown(comparison))
    return f"No package changed in {count} of {len(comparison.pairs)} stacks." if count else ""


def move(each: PackageMove) -> str:
    """Format a changed package, with the days of its releases."""
    before, after = each.before or "none", each.after or "none"
    others = ", with other contents" if each.same_version else ""
    return f"{before}{day(each.before_released)} → {after}{day(each.after_released)}{others}"


def day(released: object) -> str:
    """Format the day of a release, if it is known."""
    return f" ({released})" if released is not None else ""


@dataclass(frozen=True)
class PackageChanges:
    """The packages that differ between the two sides of a pair."""

    candidate: str
    """The name of the candidate."""
    summary: str
    """How many packages changed, or why that is not known."""
    direct: tuple[PackageMove, ...]
    """Packages that a stack requires by name."""
    transitive: tuple[PackageMove, ...]
    """The other packages."""


def packages_of(pair: Pair) -> PackageChanges:
    """Return the packages that differ between two sides."""
    moved = pair.moved or ()
    return PackageChanges(
        candidate=pair.candidate.name,
        summary=moved_summary(pair),
        direct=tuple(each for each in moved if each.direct),
        transitive=tuple(each for each in moved if not each.direct),
    )


def moved_summary(pair: Pair) -> str:
    """Return how many packages changed, or why that is not known."""
    if pair.moved is None:
        unknown = " and ".join(
            side.name for side in (pair.baseline, pair.candidate) if side.as_of is None
        )
        return f"The changed packages are not known, because there is no lock of {unknown}."
    if not pair.moved:
        return "No package changed."
    counts = Counter(kind(each) for each in pair.moved)
    kinds = tally(dict(counts.most_common()))
    by_name = f"{sum(each.direct for each in pair.moved)} of them required by name"
    differ = "1 package differs" if len(pair.moved) == 1 else f"{len(pair.moved)} packages differ"
    return f"{differ} ({kinds}), {by_name}."


def kind(each: PackageMove) -> str:
    """Return whether a package was changed, added or removed."""
    if each.before is None:
        return "added"
    return "removed" if each.after is None else "changed"


def warnings(comparison: Comparison) -> tuple[str, ...]:
    """Return what a reader must know about the sides before trusting the rest."""
    of_pairs = (text for pair in comparison.pairs for text in warnings_of(pair))
    return (*comparison.notes, *of_pairs, *not_run(comparison))


def not_run(comparison: Comparison) -> Iterator[str]:
    """Yield a warning about cells that were not run on the candidate."""
    if comparison.missing:
        names = map(str, Names.of(comparison).together(comparison.missing))
        by_scenario = Counter(cell.scenario for cell in comparison.missing)
        counts = (f"{count} of {scenario}" for scenario, count in by_scenario.items())
        named = "; ".join(names if len(comparison.missing) <= MOST_MISSING_NAMED else counts)
        cells = counted(len(comparison.missing), "cell")
        yield (
            f"The candidate has no record of {cells} that the baseline ran: {named}. "
            "Run them on the candidate to compare them."
        )


def warnings_of(pair: Pair) -> Iterator[str]:
    """Yield warnings about one pair: a failed resolution, other machines or builds of torch."""
    for role, side in (("baseline", pair.baseline), ("candidate", pair.candidate)):
        if side.failure is not None:
            yield f"The {role} {side.name} could not be resolved: {side.failure}"
    for word, one, other in (
        ("machines", pair.baseline.device, pair.candidate.device),
        ("builds of torch", pair.baseline.build, pair.candidate.build),
    ):
        if one and other and one != other:
            both = f"{', '.join(one)} and {', '.join(other)}"
            yield f"The sides of {pair.candidate.name} ran on different {word}: {both}."


@dataclass(frozen=True)
class Contents:
    """All that a report shows, whatever its form."""

    sides: str
    summary: str
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    releases: tuple[str, ...]
    """The releases that did it, if that was looked for."""
    measuring: str
    """How speed and memory were measured, or why they were not."""
    ratios: tuple[RatioRow, ...]
    drift_summary: str
    """Empty if no cell trains on both sides."""
    drifted: tuple[Drifted, ...]
    packages: tuple[PackageChanges, ...]
    """Of each pair of sides that is shown."""
    unmoved: str
    """In how many of several stacks no package changed; empty if there are none."""


def contents_of(comparison: Comparison) -> Contents:
    """Return all that a report shows."""
    return Contents(
        sides=sides(comparison),
        summary=summary(comparison),
        warnings=warnings(comparison),
        sections=sections(comparison),
        releases=tuple(each.headline for each in comparison.bisected),
        measuring=measuring(comparison),
        ratios=ratio_rows(comparison),
        drift_summary=drift_summary(comparison),
        drifted=drifted(comparison),
        packages=tuple(map(packages_of, pairs_shown(comparison))),
        unmoved=unmoved(comparison),
    )
