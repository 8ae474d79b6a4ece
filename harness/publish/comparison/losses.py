"""How far the losses of one seed drifted apart, in words: stated, never a failure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.publish.comparison.names import Names, Together

if TYPE_CHECKING:
    from harness.comparison import Comparison
    from harness.drift import Drift
    from harness.model import Cell

CLOSE = 1e-3
"""Relative differences up to it are told apart from larger ones, in the summary alone."""


@dataclass(frozen=True)
class Drifted:
    """Cells of a scenario whose losses drifted in the same way."""

    words: str
    largest: float
    cells: tuple[Together, ...]


def drifted(comparison: Comparison) -> tuple[Drifted, ...]:
    """The cells that train on both sides, the largest difference first, identical ones last."""
    names = Names.of(comparison)
    together: dict[tuple[str, str], list[tuple[Cell, Drift]]] = defaultdict(list)
    for each in comparison.cells:
        if each.drift is not None:
            together[each.cell.scenario, str(each.drift)].append((each.cell, each.drift))
    found = [
        Drifted(words, max(drift.largest for _, drift in members), names.together(cell for cell, _ in members))
        for (_, words), members in together.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.largest))


def drift_summary(comparison: Comparison) -> str:
    """How many cells have identical losses, close ones, and other ones; empty where none train on both sides."""
    largest = [each.drift.largest for each in comparison.cells if each.drift is not None]
    if not largest:
        return ""
    identical = sum(each == 0 for each in largest)
    close = sum(0 < each <= CLOSE for each in largest)
    counts = {"identical": identical, f"within {CLOSE:g}": close, "further apart": len(largest) - identical - close}
    told = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    return f"Losses from the same seed, of {len(largest)} cells that train on both sides: {told}."
