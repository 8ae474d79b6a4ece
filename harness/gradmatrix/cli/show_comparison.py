"""The screen of a comparison: the verdict, changed cells, speed, losses and packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from gradmatrix.compare.comparison import Verdict
from gradmatrix.core.text import few, one_line
from gradmatrix.judge.change import Change
from gradmatrix.measure.statistics import Size
from gradmatrix.publish.comparison import contents_of, move

if TYPE_CHECKING:
    from rich.console import Console

    from gradmatrix.compare.comparison import Comparison
    from gradmatrix.publish.comparison import Contents, Item, PackageChanges, Section


VERDICT_STYLES = {
    Verdict.SAFE: "bold green",
    Verdict.REGRESSIONS: "bold red",
    Verdict.INCONCLUSIVE: "bold yellow",
    Verdict.SPEED_UNKNOWN: "bold yellow",
}
CHANGE_STYLES = {
    Change.REGRESSED: "red",
    Change.BROKE_DIFFERENTLY: "red",
    Change.FIXED: "green",
    Change.INCONCLUSIVE: "yellow",
}
SIZE_STYLES = {
    Size.MORE: "red",
    Size.PROBABLY_MORE: "yellow",
    Size.SAME: "",
    Size.PROBABLY_LESS: "green",
    Size.LESS: "green",
    Size.INCONCLUSIVE: "yellow",
}
MOST_DRIFTED = 8
"""The most differences of losses that are shown; a report in a file has all of them."""
MOST_TRANSITIVE = 12
"""The most packages that are named of those that no stack requires by name."""


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Print a comparison: the verdict, the changed cells, speed, losses and packages."""
    contents = contents_of(comparison)
    show_line(console, comparison.headline, VERDICT_STYLES[comparison.verdict])
    show_line(console, contents.sides, "dim")
    show_line(console, contents.summary, "dim")
    for each in contents.warnings:
        show_line(console, f"warning: {each}", "yellow")
    for section in contents.sections:
        show_section(console, section)
    if contents.releases:
        show_line(console, "")
        show_line(console, "Which release did it", "bold")
        for each in contents.releases:
            show_line(console, each, "", 2)
    show_speed(console, contents)
    show_drift(console, contents)
    for changes in contents.packages:
        show_packages(console, changes, several=comparison.several)
    if contents.unmoved:
        show_line(console, "")
        show_line(console, contents.unmoved, "dim")


def show_section(console: Console, section: Section) -> None:
    """Print a section: its title and its causes."""
    show_line(console, "")
    show_line(console, f"{section.title} ({section.count})", "bold")
    show_line(console, section.note, "dim")
    for item in section.items:
        show_item(console, item)


def show_item(console: Console, item: Item) -> None:
    """Print a cause: its cells, its diagnosis and its remedy."""
    show_line(console, f"{item.mark} {item.title}", CHANGE_STYLES.get(item.change, ""), 2)
    for each in item.cells:
        show_line(console, str(each), "bold", 4)
    for text in item.lines:
        show_line(console, text, "", 4)
    if item.advice:
        show_line(console, f"→ {item.advice}", "cyan", 4)


def show_speed(console: Console, contents: Contents) -> None:
    """Print what was measured side by side."""
    show_line(console, "")
    show_line(console, "Speed and memory", "bold")
    show_line(console, contents.measuring, "dim")
    rows = contents.ratios
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
            show_line(console, cell, "", 2)
        console.print(Text(text, style=SIZE_STYLES[row.size]), soft_wrap=True)
    for why in dict.fromkeys(f"{row.cell}, {row.quantity}: {row.why}" for row in rows if row.why):
        show_line(console, why, "dim", 2)


def show_drift(console: Console, contents: Contents) -> None:
    """Print how far losses drifted apart, the largest differences first."""
    if not contents.drift_summary:
        return
    show_line(console, "")
    show_line(console, "Drift of losses", "bold")
    meaning = "Differences are relative to the largest loss of both sides. They are not judged."
    show_line(console, f"{contents.drift_summary} {meaning}", "dim")
    apart = [each for each in contents.drifted if each.largest]
    for each in apart[:MOST_DRIFTED]:
        show_line(console, f"{each.words}: {'; '.join(map(str, each.cells))}", "", 2)
    if len(apart) > MOST_DRIFTED:
        more = f"… and {len(apart) - MOST_DRIFTED} more with smaller differences."
        show_line(console, f"{more} A report in a file has all of them.", "dim", 2)


def show_packages(console: Console, changes: PackageChanges, *, several: bool) -> None:
    """Print which packages changed; those that no stack requires by name are on one line."""
    show_line(console, "")
    of = f" of {changes.candidate}" if several else ""
    show_line(console, f"Changed packages{of}", "bold")
    show_line(console, changes.summary, "dim")
    for each in changes.direct:
        show_line(console, f"{each.name:20} {move(each)}", "", 2)
    if changes.transitive:
        others = few([*map(str, changes.transitive)], MOST_TRANSITIVE)
        show_line(console, f"also: {others}", "dim", 2)


def show_line(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """Print a sentence. On a terminal it is folded, and all its lines are indented.

    In a file it stays on one line.
    """
    shown = Text(one_line(text), style=style)
    if not text:
        console.print()
    elif console.is_terminal:
        console.print(Padding(shown, (0, 0, 0, indent), expand=False))
    else:
        console.print(Text(" " * indent) + shown, soft_wrap=True)
