"""What a report says of the cells, in sections that every form of it shows alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.answer import cells as counted
from harness.model import Role
from harness.publish.comparison.names import Names, Together
from harness.standing import Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.comparison import CellChange, Comparison, Ending, Group

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
    Change.BROKE_DIFFERENTLY: "Fails on both sides, and in another way on the candidate.",
    Change.FIXED: "Failed on the baseline, passes on the candidate. Below each cause is what was wrong.",
    Change.INCONCLUSIVE: "Nothing can be said of these: run them again, or look at why they are flaky.",
    Change.ELSEWHERE: "Another verdict on another machine or build of torch, with the same packages: no news of them.",
    Change.NEW: "Judged on the candidate alone.",
    Change.GONE: "Judged on the baseline alone: the candidate has no such feature.",
}
MISUSE = "Does the stack tell you?"
MISUSE_NOTE = "Misuse cannot train. It passes where the stack says so, and has regressed where it has become silent."
MISUSE_WORDS = {Change.REGRESSED: "silent now", Change.FIXED: "told of now"}
BOTH = "Fail on both sides"
BOTH_NOTE = "In the same way, so they say nothing against the candidate."
SPURIOUS = "Failures of the machine"
SPURIOUS_NOTE = "No network, a full disk or a lost process: they say nothing of the stacks, and never are a regression."


MOST_BEFORE = 3
"""Ways in which cells of a group failed before that are named."""


@dataclass(frozen=True)
class Item:
    """One cause, or one reason, and its cells."""

    change: Change
    title: str
    lines: tuple[str, ...]
    """Sentences; names of modules and code stand in backticks."""
    advice: str | None
    cells: tuple[Together, ...]
    count: int

    @property
    def mark(self) -> str:
        """A symbol for the change."""
        return MARKS[self.change]


@dataclass(frozen=True)
class Section:
    """Items under one title."""

    title: str
    note: str
    items: tuple[Item, ...]

    @property
    def is_urgent(self) -> bool:
        """Whether somebody has to look at it before the candidate is taken."""
        return any(item.change in {Change.REGRESSED, Change.INCONCLUSIVE} for item in self.items)

    @property
    def count(self) -> int:
        """How many cells it is about."""
        return sum(item.count for item in self.items)


def sections(comparison: Comparison) -> tuple[Section, ...]:
    """What is to be said of cells, by change, those that need somebody's attention first; misuse and the machine apart.

    Of the cells that did not change those that fail are last; the others are counted elsewhere.
    """
    told = Told(comparison)
    found = [told.of_change(change) for change in TITLES]
    found += [told.of_misuse(), told.of_the_machine(), told.of_both_sides()]
    return tuple(sorted((section for section in found if section.items), key=lambda each: not each.is_urgent))


class Told:
    """The parts of one comparison."""

    def __init__(self, comparison: Comparison) -> None:
        self._groups = comparison.groups
        self._names = Names.of(comparison)
        self._by_cell = {each.cell: each for each in comparison.cells}
        grouped = {cell for group in comparison.groups for cell in group.cells}
        self._single = [
            each for each in comparison.cells if each.change is not Change.UNCHANGED and each.cell not in grouped
        ]

    def of_change(self, change: Change) -> Section:
        """All cells of a change that should train."""
        return Section(TITLES[change], NOTES[change], tuple(self._items(change, misuse=False)))

    def of_misuse(self) -> Section:
        """The misuse that changed, in any way."""
        items = [item for change in TITLES for item in self._items(change, misuse=True)]
        return Section(MISUSE, MISUSE_NOTE, tuple(items))

    def of_the_machine(self) -> Section:
        """Cells of which a side ended in a failure of the machine."""
        cells = [each for each in self._single if each.spurious]
        return Section(SPURIOUS, SPURIOUS_NOTE, tuple(self._by_reason(cells)))

    def of_both_sides(self) -> Section:
        """Cells that fail as they did before: no news of the candidate, and what is to be mended all the same."""
        cells = [each for each in self._by_cell.values() if each.change is Change.UNCHANGED and fails(each.after)]
        silent = [each for each in cells if each.role is Role.MISUSE]
        items = [
            *self._by_reason(each for each in cells if each.role is not Role.MISUSE),
            *(replace(each, title=f"misuse, silent: {each.title}") for each in self._by_reason(silent)),
        ]
        return Section(BOTH, BOTH_NOTE, tuple(items))

    def _items(self, change: Change, *, misuse: bool) -> Iterator[Item]:
        yield from (self._grouped(each) for each in self._groups if (each.change, each.misuse) == (change, misuse))
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
            together[each.change, course(each), each.why].append(each)
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
    """A group in a line: how it fails, where, and what came of it."""
    words = MISUSE_WORDS.get(group.change, group.change.value) if group.misuse else ""
    gradient = f" (gradient {group.gradient})" if group.gradient and not is_told(group.outcome) else ""
    at = f" at {group.place.file}, {group.place.function}" if group.place is not None else ""
    return f"{f'{words}: ' if words else ''}{group.outcome}{gradient}{at}"


def is_told(outcome: str) -> bool:
    """Whether the outcome says how the gradient is, or it does not matter."""
    return outcome.startswith(("gradient:", "step:no-grad-fn", "relation:"))


def said(group: Group, members: Sequence[CellChange]) -> Iterator[str]:
    """What a side says of a misuse of which the other one is silent; how what broke differently failed before."""
    first = members[0]
    if group.misuse and group.change is Change.REGRESSED and first.before is not None:
        yield f"The baseline said: {quoted(first.before)}. The candidate says nothing."
    if group.misuse and group.change is Change.FIXED and first.after is not None:
        yield f"The candidate says: {quoted(first.after)}. The baseline said nothing."
    if group.change is Change.BROKE_DIFFERENTLY:
        before = [f"{each.before.outcome}, {quoted(each.before)}." for each in members if each.before is not None]
        yield from (f"Before: {each}" for each in tuple(dict.fromkeys(before))[:MOST_BEFORE])


def quoted(ending: Ending) -> str:
    """What was said at the end, or the outcome where nothing was."""
    return (ending.message or ending.outcome).rstrip(".")


def notes(changes: Iterable[CellChange]) -> Iterator[str]:
    """What is to be known of changes, once each."""
    return (each for each in dict.fromkeys(change.why for change in changes) if each)


def messages(changes: Iterable[CellChange]) -> tuple[str, ...]:
    """What the candidate said of the first few that fail there, once each."""
    said = dict.fromkeys(each.after.message for each in changes if each.after is not None and fails(each.after))
    return tuple(each for each in said if each)[:MOST_BEFORE]


def course(each: CellChange) -> str:
    """From which outcome to which one; the only one where one side has no record."""
    return " → ".join(dict.fromkeys(ending.outcome for ending in (each.before, each.after) if ending is not None))


def summary(comparison: Comparison) -> str:
    """How many cells there are of each kind, those that did not change too."""
    found = Counter(each.change for each in comparison.cells)
    told = ", ".join(f"{found[change]} {change.value}" for change in Change if found[change]) or "nothing to compare"
    failing = sum(each.change is Change.UNCHANGED and fails(each.after) for each in comparison.cells)
    alike = f" ({failing} of them fail{'s' if failing == 1 else ''} on both sides)" if failing else ""
    rest = (
        f"; {comparison.not_judged} more cannot be judged (no such feature or device)" if comparison.not_judged else ""
    )
    missing = f"; {len(comparison.missing)} more not run on the candidate" if comparison.missing else ""
    return f"{counted(len(comparison.cells))}: {told}{alike}{rest}{missing}."


def fails(ending: Ending | None) -> bool:
    """Whether a side judged a cell, and it did not pass."""
    return ending is not None and ending.passed is False
