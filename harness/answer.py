"""Pure: "may I upgrade?" answered: the verdict and the headline of a comparison."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.comparison import Change, Counts, Verdict
from harness.measured import MEMORY_WORDS, TIME_WORDS, Size
from harness.model import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.comparison import CellChange, Group
    from harness.measured import Measured, Ratio

OPENING = {
    Verdict.SAFE: "Safe",
    Verdict.REGRESSIONS: "Do not upgrade yet",
    Verdict.INCONCLUSIVE: "Open",
}


def counted(changes: Iterable[CellChange], *, misuse: bool) -> Counts:
    """How many cells changed in which way, of the misuse or of the rest."""
    found = Counter(each.change for each in changes if (each.role is Role.MISUSE) is misuse)
    return Counts(**{change.value.replace(" ", "_"): found[change] for change in Change})


def verdict(training: Counts, misuse: Counts, measured: Iterable[Measured]) -> Verdict:
    """Regressions of cells, time or memory first; then what cannot be said of a cell.

    A ratio that is inconclusive is told and does not count: its budget is the user's choice, and more of it would not
    make a cell fail. Where no cell was judged on both sides, nothing was compared.
    """
    sides = (training, misuse)
    grew = any(Size.MORE in sizes(each) for each in measured)
    if grew or any(each.regressed for each in sides):
        return Verdict.REGRESSIONS
    if any(each.inconclusive for each in sides) or not any(map(on_both, sides)):
        return Verdict.INCONCLUSIVE
    return Verdict.SAFE


def on_both(counts: Counts) -> int:
    """How many cells were judged on both sides."""
    return counts.regressed + counts.broke_differently + counts.fixed + counts.judged_elsewhere + counts.unchanged


def sizes(measured: Measured) -> tuple[Size, ...]:
    """The verdicts of a measured cell."""
    return tuple(ratio.verdict for ratio in (measured.step_time, measured.memory) if ratio is not None)


def headline(
    found: Verdict, training: Counts, misuse: Counts, measured: Sequence[Measured], groups: Iterable[Group] = ()
) -> str:
    """The answer, with what speaks for it first; ``groups`` say by how many causes cells regressed."""
    causes = sum(each.change is Change.REGRESSED and not each.misuse for each in groups)
    parts = [*against(training, misuse, measured, causes), *in_favour(training, misuse, measured)]
    compared = on_both(training) + on_both(misuse)
    if not compared and not training.inconclusive + misuse.inconclusive:
        parts.insert(0, "no cell was judged on both sides")
    if found is Verdict.SAFE:
        parts.insert(0, f"nothing regressed in {cells(compared)}")
    return f"{OPENING[found]}: {', '.join(parts)}."


def against(training: Counts, misuse: Counts, measured: Sequence[Measured], causes: int) -> Iterator[str]:
    """What speaks against the candidate, and what is open."""
    if training.regressed:
        by = f" ({causes} cause{'s' if causes > 1 else ''})" if 0 < causes < training.regressed else ""
        yield f"{cells(training.regressed)} regressed{by}"
    if misuse.regressed:
        yield f"{misuse.regressed} misuse{'s are' if misuse.regressed > 1 else ' is'} not told of any more"
    for words, ratios in ((TIME_WORDS, times(measured)), (MEMORY_WORDS, memories(measured))):
        grown = [ratio for ratio in ratios if ratio.verdict is Size.MORE]
        if grown:
            worst = max(ratio.ratio for ratio in grown)
            yield f"{cells(len(grown))} {words[Size.MORE]} (at worst ×{worst:.3g})"
    unsure = training.inconclusive + misuse.inconclusive
    if unsure:
        yield f"{cells(unsure)} inconclusive"


def in_favour(training: Counts, misuse: Counts, measured: Sequence[Measured]) -> Iterator[str]:
    """What speaks for the candidate, or not against it."""
    if training.fixed:
        yield f"{training.fixed} fixed"
    if misuse.fixed:
        yield f"{misuse.fixed} misuse{'s' if misuse.fixed > 1 else ''} told of now"
    if training.broke_differently + misuse.broke_differently:
        yield f"{training.broke_differently + misuse.broke_differently} broke differently"
    if training.gone + misuse.gone:
        yield f"{training.gone + misuse.gone} gone"
    for words, ratios in ((TIME_WORDS, times(measured)), (MEMORY_WORDS, memories(measured))):
        shrunk = sum(ratio.verdict is Size.LESS for ratio in ratios)
        if shrunk:
            yield f"{shrunk} {words[Size.LESS]}"
    unsure = sum(Size.INCONCLUSIVE in sizes(each) for each in measured)
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
