"""A comparison on the terminal: the answer first, then what needs somebody's attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from harness.comparison import Verdict
from harness.measured import Size
from harness.publish.comparison.losses import drift_summary, drifted
from harness.publish.comparison.packages import (
    direct,
    move,
    moved_summary,
    pairs_told,
    sides,
    transitive,
    unmoved,
    warnings,
)
from harness.publish.comparison.ratios import measuring, ratio_rows
from harness.publish.comparison.sections import sections, summary
from harness.publish.text import one_line
from harness.standing import Change

if TYPE_CHECKING:
    from rich.console import Console

    from harness.comparison import Comparison, Pair
    from harness.publish.comparison.sections import Item, Section

VERDICTS = {Verdict.SAFE: "bold green", Verdict.REGRESSIONS: "bold red", Verdict.INCONCLUSIVE: "bold yellow"}
MARKS = {
    Change.REGRESSED: "red",
    Change.BROKE_DIFFERENTLY: "red",
    Change.FIXED: "green",
    Change.INCONCLUSIVE: "yellow",
}
SIZES = {Size.MORE: "red", Size.LESS: "green", Size.SAME: "", Size.INCONCLUSIVE: "yellow"}
MOST_DRIFTED = 8
"""Lines of drift that are shown; a report in a file has all."""
MOST_TRANSITIVE = 12
"""Packages that nobody asked for by name, and that are named."""


def show_comparison(console: Console, comparison: Comparison) -> None:
    """The whole report."""
    line(console, comparison.headline, VERDICTS[comparison.verdict])
    line(console, sides(comparison), "dim")
    line(console, summary(comparison), "dim")
    for each in warnings(comparison):
        line(console, f"warning: {each}", "yellow")
    for section in sections(comparison):
        show_section(console, section)
    show_speed(console, comparison)
    show_drift(console, comparison)
    for pair in pairs_told(comparison):
        show_packages(console, pair, several=comparison.several)
    if unmoved(comparison):
        line(console, "")
        line(console, unmoved(comparison), "dim")


def show_section(console: Console, section: Section) -> None:
    """A title, and its causes."""
    line(console, "")
    line(console, f"{section.title} ({section.count})", "bold")
    line(console, section.note, "dim")
    for item in section.items:
        show_item(console, item)


def show_item(console: Console, item: Item) -> None:
    """A cause, its cells, its diagnosis, and what to do."""
    line(console, f"{item.mark} {item.title}", MARKS.get(item.change, ""), 2)
    for each in item.cells:
        line(console, str(each), "bold", 4)
    for text in item.lines:
        line(console, text, "", 4)
    if item.advice:
        line(console, f"→ {item.advice}", "cyan", 4)


def show_speed(console: Console, comparison: Comparison) -> None:
    """What was measured side by side."""
    line(console, "")
    line(console, "Speed and memory", "bold")
    line(console, measuring(comparison), "dim")
    rows = ratio_rows(comparison)
    if not rows:
        return
    columns = [("", "verdict", "candidate / baseline", "median", "noise")]
    columns += [(row.quantity, row.verdict, row.ratio, row.values, row.noise) for row in rows]
    widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
    lines = ["    " + "  ".join(map(str.ljust, each, widths)).rstrip() for each in columns]
    console.print(Text(lines[0], style="dim"), soft_wrap=True)
    cell = ""
    for row, text in zip(rows, lines[1:], strict=True):
        if row.cell != cell:
            cell = row.cell
            line(console, cell, "", 2)
        console.print(Text(text, style=SIZES[row.size]), soft_wrap=True)
    for why in dict.fromkeys(f"{row.cell}, {row.quantity}: {row.why}" for row in rows if row.why):
        line(console, why, "dim", 2)


def show_drift(console: Console, comparison: Comparison) -> None:
    """How far losses drifted apart, the largest differences."""
    told = drift_summary(comparison)
    if not told:
        return
    line(console, "")
    line(console, "Drift of losses", "bold")
    line(console, f"{told} Differences are relative to the largest loss of both sides; stated, not judged.", "dim")
    apart = [each for each in drifted(comparison) if each.largest]
    for each in apart[:MOST_DRIFTED]:
        line(console, f"{each.words}: {'; '.join(map(str, each.cells))}", "", 2)
    if len(apart) > MOST_DRIFTED:
        line(console, f"… and {len(apart) - MOST_DRIFTED} more lines, smaller ones: they are in a report.", "dim", 2)


def show_packages(console: Console, pair: Pair, *, several: bool) -> None:
    """What moved, what came with it on one line."""
    line(console, "")
    line(console, f"What moved{f' of {pair.candidate.name}' if several else ''}", "bold")
    line(console, moved_summary(pair), "dim")
    for each in direct(pair):
        line(console, f"{each.name:20} {move(each)}", "", 2)
    others = transitive(pair)
    if others:
        more = f" and {len(others) - MOST_TRANSITIVE} more" if len(others) > MOST_TRANSITIVE else ""
        line(console, f"with them: {', '.join(map(str, others[:MOST_TRANSITIVE]))}{more}", "dim", 2)


def line(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """A sentence; its further lines are indented like the first one, in a file it stays on one."""
    shown = Text(one_line(text), style=style)
    if not text:
        console.print()
    elif console.is_terminal:
        console.print(Padding(shown, (0, 0, 0, indent), expand=False))
    else:
        console.print(Text(" " * indent) + shown, soft_wrap=True)
