"""Cells by name, as few words as say which: variants of a scenario together, stacks of a variant together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.comparison import Comparison
    from harness.model import Cell


@dataclass(frozen=True)
class Together:
    """Cells of one scenario."""

    head: str
    """The scenario, with its device where there are several; with the variant where there are several stacks."""
    members: tuple[str, ...]
    """Its variants, or the stacks of its variant."""

    def __str__(self) -> str:
        return f"{self.head}: {', '.join(self.members)}"


@dataclass(frozen=True)
class Names:
    """How the cells of one comparison are named: a part that all have in common is left out."""

    several_stacks: bool
    several_devices: bool

    @classmethod
    def of(cls, comparison: Comparison) -> Names:
        """The names in a comparison."""
        devices = {cell.device for cell in (*(each.cell for each in comparison.cells), *comparison.missing)}
        return cls(comparison.several, len(devices) > 1)

    def together(self, cells: Iterable[Cell]) -> tuple[Together, ...]:
        """Cells in the order in which they come, those of a scenario together."""
        found: dict[str, list[str]] = defaultdict(list)
        for cell in cells:
            device = f" ({cell.device})" if self.several_devices else ""
            if self.several_stacks:
                found[f"{cell.scenario}/{cell.variant}{device}"].append(cell.stack)
            else:
                found[f"{cell.scenario}{device}"].append(cell.variant)
        return tuple(Together(head, tuple(members)) for head, members in found.items())
