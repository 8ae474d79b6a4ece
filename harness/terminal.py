"""What a run shows on the terminal: progress, the table, the failures, and the command that repeats one cell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from harness.model import Role
from harness.plan import Action
from harness.publish.grid import Grid, grid
from harness.publish.published import lacks_device
from harness.publish.rows import rows_of
from harness.publish.text import one_line, plain
from harness.run import failed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.model import Cell, LockedPackage, Published, Record, Scenario
    from harness.plan import Planned
    from harness.run import Summary

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
            Console(stderr=True, highlight=False).print(Text(one_line(f"{stack}: {text}")), soft_wrap=True)

    def planned(self, stack: str, cells: Sequence[Planned]) -> None:
        """Set the bar's length; with ``explain`` say of every cell why it is run or not."""
        total = sum(cell.action is Action.RUN for cell in cells)
        self._progress.reset(self._task, total=total, stack=stack, stage="planning")
        if self.explain:
            for cell in cells:
                self.console.print(Text(f"{cell.action.value:8} {cell.cell}: {cell.why}"), soft_wrap=True)

    def ended(self, record: Record, output: str) -> None:
        """Move the bar; with ``verbose`` print the cell's outcome and output."""
        self._progress.advance(self._task)
        if self.verbose:
            self.console.print(Text(f"── {record.cell}: {record.outcome}", style="bold"), soft_wrap=True)
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
    chosen = [row for row in rows_of(published.records, published.scenarios) if row.stack in set(stacks)]
    for device in dict.fromkeys(row.device for row in chosen):
        of_device = [row for row in chosen if row.device == device]
        if lacks_device(of_device):
            console.print(Text(f"{device}: not judged, {one_line(of_device[0].message)}", style="dim"), soft_wrap=True)
            continue
        for title, misuse in ((f"Does it train? ({device})", False), (f"Does the stack tell you? ({device})", True)):
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
        table.add_row(Text(first), Text(variant), *(Text(plain(cell), style=STYLES.get(cell[0], "")) for cell in cells))
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
    whole = {record.cell.stack: record for record in red if record.outcome.startswith(("resolve:", "install:"))}
    for stack, record in whole.items():
        text = f"  ✗ {stack}  all of its cells  {record.outcome}  {one_line(record.message)}"
        console.print(Text(text), soft_wrap=True)
    red = [record for record in red if record.cell.stack not in whole]
    if not red:
        return
    for record in red:
        told = record.outcome.startswith(("gradient:", "step:no-grad-fn"))
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
        console.print(Text("  " + ", ".join(f"{count} {role}" for role, count in roles.items()), style="dim"))
        for variant in scenario.variants:
            console.print(Text(f"  {variant.name:30} {variant.role.value:9} {variant.summary}"), soft_wrap=True)
