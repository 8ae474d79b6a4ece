"""Pure: "may I upgrade?" answered: the verdict and the headline of a comparison."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.comparison import Counts, Verdict
from harness.measured import MEMORY_WORDS, TIME_WORDS, Size
from harness.model import Role
from harness.standing import Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.comparison import CellChange, Group
    from harness.measured import Measured, Ratio

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
    return counts.regressed + counts.broke_differently + counts.fixed + counts.judged_elsewhere + counts.unchanged


def sizes(measured: Measured) -> tuple[Size, ...]:
    """The verdicts of a measured cell."""
    return tuple(ratio.verdict for ratio in (measured.step_time, measured.memory) if ratio is not None)


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
    for words, ratios in ((TIME_WORDS, times(found.measured)), (MEMORY_WORDS, memories(found.measured))):
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
    for words, ratios in ((TIME_WORDS, times(found.measured)), (MEMORY_WORDS, memories(found.measured))):
        shrunk = sum(ratio.verdict is Size.LESS for ratio in ratios)
        if shrunk:
            yield f"{shrunk} {words[Size.LESS]}"


def unmeasured(measured: Sequence[Measured]) -> Iterator[str]:
    """The cells whose speed or memory is not known, though they were to be measured."""
    failed = sum(each.step_time is None for each in measured)
    if failed:
        yield f"{failed} of {cells(len(measured))} could not be measured"
    unsure = sum(Size.INCONCLUSIVE in sizes(each) for each in measured if each.step_time is not None)
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
        place = min((SEVERITY.index(size) for size in sizes(each)), default=SEVERITY.index(Size.INCONCLUSIVE))
        ratios = [ratio.ratio for ratio in (each.step_time, each.memory) if ratio is not None]
        return place, -max(ratios, default=0.0), str(each.key)

    return tuple(sorted(measured, key=key))
