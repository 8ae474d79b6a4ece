"""What a run shows on the terminal: progress, the table, the failures, and the command that repeats one cell.

A comparison on the terminal: the answer first, then what needs somebody's attention.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from gradmatrix.compare.comparison import Verdict
from gradmatrix.core.model import Role
from gradmatrix.core.outcomes import NO_GRAD_FN
from gradmatrix.core.text import one_line, plain
from gradmatrix.judge.change import Change
from gradmatrix.measure.statistics import Size
from gradmatrix.publish.comparison import (
    direct,
    drift_summary,
    drifted,
    measuring,
    move,
    moved_summary,
    pairs_shown,
    ratio_rows,
    sections,
    sides,
    summary,
    transitive,
    unmoved,
    warnings,
)
from gradmatrix.publish.rows import Grid, grid, lacks_device, rows_of
from gradmatrix.run.plan import Action
from gradmatrix.run.stack import failed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gradmatrix.compare.comparison import Comparison, Pair
    from gradmatrix.core.model import Cell, LockedPackage, Published, Record, Scenario
    from gradmatrix.publish.comparison import Item, Section
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.stack import Summary


NAMES_WIDTH = 56
"""Columns of characters that the names of scenarios and variants take."""
COLUMN_WIDTH = 24
"""Columns of characters that a stack takes."""
LONG = {"installing", "importing", "waiting", "changed", "starting", "measuring"}
"""First words of the stages that take long, but for cells."""
STYLES = {"✓": "green", "✗": "red", "–": "dim"}


class Display:
    """A progress bar with the stack, the cell and the time left; with ``verbose`` also what the children print."""

    def __init__(self, console: Console, *, verbose: bool = False, explain: bool = False) -> None:
        self.console = console
        self.verbose = verbose
        self.explain = explain
        self._progress = Progress(
            TextColumn("{task.fields[stack]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[stage]}", markup=False),
            console=console,
            transient=True,
        )
        self._told = ""
        self._task = self._progress.add_task("", stack="", stage="", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def stage(self, stack: str, text: str) -> None:
        """Show what the run is at; where nobody watches a terminal, only what takes long, a line each."""
        self._progress.update(self._task, stack=stack, stage=text)
        if not self.console.is_terminal and text != self._told and text.partition(" ")[0] in LONG:
            self._told = text
            Console(stderr=True, highlight=False).print(
                Text(one_line(f"{stack}: {text}")), soft_wrap=True
            )

    def planned(self, stack: str, cells: Sequence[Planned]) -> None:
        """Set the bar's length; with ``explain`` say of every cell why it is run or not."""
        total = sum(cell.action is Action.RUN for cell in cells)
        self._progress.reset(self._task, total=total, stack=stack, stage="planning")
        if self.explain:
            for cell in cells:
                self.console.print(
                    Text(f"{cell.action.value:8} {cell.cell}: {cell.why}"), soft_wrap=True
                )

    def ended(self, record: Record, output: str) -> None:
        """Move the bar; with ``verbose`` print the cell's outcome and output."""
        self._progress.advance(self._task)
        if self.verbose:
            self.console.print(
                Text(f"── {record.cell}: {record.outcome}", style="bold"), soft_wrap=True
            )
            if output.strip():
                self.console.print(Text(plain(output)), soft_wrap=True)


def show_summary(console: Console, summary: Summary) -> None:
    """One line on what was done for a stack, and its notice."""
    console.print(
        Text(
            f"{summary.stack}: {summary.executed} cells run, {summary.kept} kept, {summary.settled} settled without "
            f"running (unsupported, no such device); importing {summary.import_s:.1f} s, cells {summary.cells_s:.1f} s"
        ),
        soft_wrap=True,
    )
    if summary.notice:
        console.print(Text(f"  note: {one_line(summary.notice)}", style="yellow"), soft_wrap=True)


def show_fallen_behind(console: Console, packages: Sequence[LockedPackage]) -> None:
    """One line for each package of which the resolver silently took an old release."""
    for package in packages:
        text = f"  ⚠ {package.name} {package.version} is {package.behind_days} days behind {package.newest}"
        console.print(Text(text, style="yellow"), soft_wrap=True)


def show_matrix(console: Console, published: Published, stacks: Sequence[str]) -> None:
    """The table of the judged cells, a column per stack; misuse in a section of its own."""
    chosen = [
        row for row in rows_of(published.records, published.scenarios) if row.stack in set(stacks)
    ]
    for device in dict.fromkeys(row.device for row in chosen):
        of_device = [row for row in chosen if row.device == device]
        if lacks_device(of_device):
            console.print(
                Text(f"{device}: not judged, {one_line(of_device[0].message)}", style="dim"),
                soft_wrap=True,
            )
            continue
        for title, misuse in (
            (f"Does it train? ({device})", False),
            (f"Does the stack tell you? ({device})", True),
        ):
            section = [r for r in of_device if (r.role is Role.MISUSE) == misuse]
            if section:
                show_grid(console, title, grid(section, published.scenarios, stacks))


def show_grid(console: Console, title: str, whole: Grid) -> None:
    """A grid as one table, or as several where it has more columns than the console is wide."""
    fit = max(1, (console.width - NAMES_WIDTH) // COLUMN_WIDTH)
    for start in range(0, len(whole.stacks), fit):
        console.print(rich_table(title, whole.columns(start, start + fit)))


def rich_table(title: str, part: Grid) -> Table:
    """A grid as a terminal table; a scenario's name is written once."""
    table = Table(title=title, title_justify="left", header_style="bold", padding=(0, 1))
    for name in ("scenario", "variant"):
        table.add_column(name, no_wrap=True)
    for name in part.stacks:
        table.add_column(name, overflow="fold")
    last = ""
    for scenario, variant, cells in part.rows:
        if last and scenario != last:
            table.add_section()
        first = "" if scenario == last else scenario
        last = scenario
        table.add_row(
            Text(first),
            Text(variant),
            *(Text(plain(cell), style=STYLES.get(cell[0], "")) for cell in cells),
        )
    return table


def show_failures(console: Console, records: Mapping[Cell, Record], repeat: str) -> None:
    """One line per failed cell, and the command that repeats one; ``repeat`` has fields of a cell in braces.

    A terminal cuts a line at its width; a file and a log of CI get all of it.
    """
    red = failed(records.values())
    if not red:
        return
    roles = Counter(record.role.value for record in red)
    counts = ", ".join(f"{roles[role.value]} {role.value}" for role in Role if roles[role.value])
    console.print(Text(f"\nDid not pass: {counts}", style="bold"))
    whole = {
        record.cell.stack: record
        for record in red
        if record.outcome.startswith(("resolve:", "install:"))
    }
    for stack, record in whole.items():
        text = f"  ✗ {stack}  all of its cells  {record.outcome}  {one_line(record.message)}"
        console.print(Text(text), soft_wrap=True)
    red = [record for record in red if record.cell.stack not in whole]
    if not red:
        return
    for record in red:
        told = record.outcome.startswith(("gradient:", NO_GRAD_FN))
        gradient = f" (gradient {record.gradient})" if record.gradient and not told else ""
        where = f"{record.cell.stack}  {record.cell.scenario}/{record.cell.variant} ({record.role})"
        console.print(
            Text(f"  ✗ {where}  {record.outcome}{gradient}  {one_line(record.message)}"),
            overflow="ellipsis" if console.is_terminal else "ignore",
            no_wrap=True,
            crop=console.is_terminal,
        )
    first = red[0].cell
    command = repeat.format(stack=first.stack, scenario=first.scenario, variant=first.variant)
    console.print(Text(f"Repeat one: {command}"), soft_wrap=True)


def show_plan(console: Console, scenarios: Mapping[str, Scenario]) -> None:
    """The scenarios and their variants, one line each."""
    for scenario in scenarios.values():
        roles = Counter(variant.role.value for variant in scenario.variants)
        console.print(Text(f"{scenario.name}: {scenario.title}", style="bold"))
        console.print(
            Text("  " + ", ".join(f"{count} {role}" for role, count in roles.items()), style="dim")
        )
        for variant in scenario.variants:
            console.print(
                Text(f"  {variant.name:30} {variant.role.value:9} {variant.summary}"),
                soft_wrap=True,
            )


VERDICTS = {
    Verdict.SAFE: "bold green",
    Verdict.REGRESSIONS: "bold red",
    Verdict.INCONCLUSIVE: "bold yellow",
}
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
    for pair in pairs_shown(comparison):
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
    line(
        console,
        f"{told} Differences are relative to the largest loss of both sides; stated, not judged.",
        "dim",
    )
    apart = [each for each in drifted(comparison) if each.largest]
    for each in apart[:MOST_DRIFTED]:
        line(console, f"{each.words}: {'; '.join(map(str, each.cells))}", "", 2)
    if len(apart) > MOST_DRIFTED:
        line(
            console,
            f"… and {len(apart) - MOST_DRIFTED} more lines, smaller ones: they are in a report.",
            "dim",
            2,
        )


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
