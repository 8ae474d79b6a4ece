"""One cell as it stands in a table: a symbol with a word, and a note below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from harness.model import Gradient, Role
from harness.outcome import TRAINS
from harness.publish.grid import SYMBOLS, WITHOUT_A_WORD, rate
from harness.publish.site import links
from harness.publish.site.markup import safe

if TYPE_CHECKING:
    from harness.publish.rows import Row

KINDS = {True: "p", False: "f", None: "n"}
"""The class of a table cell, which colours it: passes, fails, not judged."""


class Shown(NamedTuple):
    """What a cell shows; the colour that ``kind`` gives it says nothing that ``word`` does not."""

    kind: str
    word: str
    """A symbol and a word."""
    note: str
    """Steps per second, or what else is known."""


NOT_RUN = Shown("x", "not run", "")


def shown(row: Row) -> Shown:
    """A cell in two short lines: the words of ``grid.words``."""
    kind, symbol = KINDS[row.passed], SYMBOLS[row.passed]
    if row.outcome == TRAINS and row.role is not Role.MISUSE:
        return Shown(kind, f"{symbol} {TRAINS}", "" if row.steps_per_s is None else rate(row.steps_per_s.median))
    if row.role is Role.MISUSE and row.passed is not None and not row.outcome.startswith(WITHOUT_A_WORD):
        if row.passed:
            return Shown(kind, f"{symbol} says so", row.outcome)
        if row.raised is None:
            return Shown(kind, f"{symbol} silent", row.outcome)
    told = row.gradient in {Gradient.FLOWING, Gradient.PARTIAL} and not row.outcome.startswith("gradient:")
    return Shown(kind, f"{symbol} {row.outcome}", f"gradient {row.gradient}" if told else "")


def table_cell(row: Row | None, root: str) -> str:
    """A ``td`` with a link to the cell's evidence."""
    if row is None:
        return '<td class="x">not run</td>'
    kind, word, note = shown(row)
    below = f"<small>{note}</small>" if note else ""
    return f'<td class="{kind}"><a href="{root}{links.evidence(row)}">{broken(word)}{below}</a></td>'


def broken(word: str) -> str:
    """An outcome that may go on in the next line after its phase."""
    return safe(word).replace(":", ":<wbr>")
