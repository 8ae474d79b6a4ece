"""What people see on the terminal: the progress of a run, what trains, failures, a comparison."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import wrap
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
from gradmatrix.core.outcomes import NOT_INSTALLED, gradient_note, phase_of
from gradmatrix.core.text import counted, few, one_line, plain, tally
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
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from gradmatrix.compare.comparison import Comparison, Pair
    from gradmatrix.core.model import Cell, LockedPackage, Published, Record, Scenario
    from gradmatrix.publish.comparison import Item, Section
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.project import Agreement
    from gradmatrix.run.stack import Summary


NAMES_WIDTH = 56
"""Characters for the names of scenario and variant."""
COLUMN_WIDTH = 24
"""Characters for a stack."""
MOST_COLUMNS = 4
"""Stacks that the overview shows side by side; more of them get a line each."""
MOST_STACKS = 15
"""Stacks with a line in the overview: it fits on a screen."""
MOST_DIFFERING = 4
"""Cells that differ from the published matrix and are named in the overview."""
LONG = {
    "locking", "installing", "installing:", "importing", "waiting", "changed", "starting",
    "measuring",
}  # fmt: skip
"""First words of the stages that take long, cells apart."""
REPEAT = 'nox -s "matrix({stack})" -- --cell {scenario}/{variant} --fresh'
STYLES = {"✓": "green", "✗": "red", "–": "dim"}


class Display:
    """A progress bar with the stack, the cell and the time left.

    With ``verbose`` also what cells print, with ``explain`` why each cell is run or not.
    """

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
        self._last = ""
        self._task = self._progress.add_task("", stack="", stage="", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def stage(self, stack: str, text: str) -> None:
        """Show what the run is doing; without a terminal, a line for each thing that takes long."""
        self._progress.update(self._task, stack=stack, stage=text)
        if not self.console.is_terminal and text != self._last and text.partition(" ")[0] in LONG:
            self._last = text
            Console(stderr=True, highlight=False).print(
                Text(one_line(f"{stack}: {text}")), soft_wrap=True
            )

    def planned(self, stack: str, cells: Sequence[Planned]) -> None:
        """Set the length of the bar; with ``explain`` print why each cell is run or not."""
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
    """Print what was done for a stack, and its notice."""
    text = (
        f"{summary.stack}: {counted(summary.executed, 'cell')} ran, {summary.kept} are up to date, "
        f"{summary.settled} need no run"
    )
    if summary.executed:
        text += f"; imports {summary.import_s:.1f} s, cells {summary.cells_s:.1f} s"
    console.print(Text(text), soft_wrap=True)
    if summary.notice:
        console.print(Text(f"  note: {one_line(summary.notice)}", style="yellow"), soft_wrap=True)


def show_fallen_behind(console: Console, packages: Sequence[LockedPackage]) -> None:
    """Print a line for each package of which the resolver took an old release."""
    for package in packages:
        text = (
            f"  ⚠ {package.name} {package.version} is {package.behind_days} days older "
            f"than {package.newest}"
        )
        console.print(Text(text, style="yellow"), soft_wrap=True)


def show_overview(
    console: Console,
    records: Collection[Record],
    agreement: Agreement,
    tables: Path,
    *,
    verbose: bool = False,
) -> None:
    """Print what trains on each stack, whether that was expected, and what to look at next.

    It fits on a screen of 40 lines and 100 columns.

    Args:
        console: Where it is printed.
        records: The newest record of every cell of the stacks that were asked for.
        agreement: How they compare with the published matrix.
        tables: The folder with all tables.
        verbose: Whether every failure was printed already.
    """
    if not any(record.passed is not None for record in records):
        console.print("No cell of these stacks was judged.")
        return
    console.print(Text("\nWhat trains: cells that train, of those that were judged", style="bold"))
    stacks = list(dict.fromkeys(record.cell.stack for record in records))
    if len(stacks) <= MOST_COLUMNS:
        console.print(counts_by_scenario(records, stacks))
    else:
        show_counts_by_stack(console, records, stacks)
    console.print()
    show_agreement(console, agreement)
    failures = failed(records)
    show_expected(console, failures)
    show_next(console, failures, tables, verbose=verbose)


def counts_by_scenario(records: Collection[Record], stacks: Sequence[str]) -> Table:
    """A row for each scenario, a column for each stack; misuse in a row of its own."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("scenario", no_wrap=True)
    for stack in stacks:
        table.add_column("\n".join(wrap(stack, 18)), no_wrap=True)
    scenarios = dict.fromkeys(r.cell.scenario for r in records if r.role is not Role.MISUSE)
    rows = {name: [r for r in records if r.cell.scenario == name] for name in scenarios}
    for name, members in rows.items():
        table.add_row(name, *(count(members, stack) for stack in stacks))
    table.add_row("all", *(count(records, stack) for stack in stacks), style="bold")
    misuse = [record for record in records if record.role is Role.MISUSE]
    if misuse:
        counts = (count(misuse, stack, misuse=True) for stack in stacks)
        table.add_row("misuse that the stack reports", *counts)
    return table


def show_counts_by_stack(
    console: Console, records: Collection[Record], stacks: Sequence[str]
) -> None:
    """Print a line for each stack."""
    width = max(map(len, stacks))
    for stack in stacks[:MOST_STACKS]:
        text = f"{stack:{width}}  {count(records, stack)} train"
        if misuse := count(records, stack, misuse=True):
            text += f", {misuse} misuses are reported"
        console.print(Text(text), soft_wrap=True)
    if len(stacks) > MOST_STACKS:
        console.print(f"and {len(stacks) - MOST_STACKS} more stacks")


def count(records: Iterable[Record], stack: str, *, misuse: bool = False) -> str:
    """How many judged cells of ``stack`` passed, such as "3 of 5"; empty if none was judged."""
    judged = [
        record.passed
        for record in records
        if record.cell.stack == stack
        and record.passed is not None
        and (record.role is Role.MISUSE) is misuse
    ]
    return f"{sum(judged)} of {len(judged)}" if judged else ""


def show_agreement(console: Console, agreement: Agreement) -> None:
    """Print how many cells have the published verdict, and the first that have another one."""
    if not agreement.compared:
        console.print("None of these cells ran here: this is the published matrix.")
        return
    all_agree = not agreement.differing
    text = f"{agreement.same} of {agreement.compared} cells agree with the published matrix."
    console.print(Text(text, style="green" if all_agree else "yellow"))
    for here, there in agreement.differing[:MOST_DIFFERING]:
        text = one_line(f"{here.cell}: {here.outcome} (published: {there.outcome})")
        console.print(Text(f"  {text}"), overflow="ellipsis", no_wrap=True)
    if len(agreement.differing) > MOST_DIFFERING:
        console.print(f"  and {len(agreement.differing) - MOST_DIFFERING} more that differ")


def show_expected(console: Console, failures: Sequence[Record]) -> None:
    """Print how many cells do not train, by role, and which of them are expected to fail."""
    roles = Counter(record.role for record in failures)
    trained = [role for role in Role if role is not Role.MISUSE and roles[role]]
    if not trained:
        return
    total = sum(roles[role] for role in trained)
    by_role = tally({role.value: roles[role] for role in trained})
    do = "does" if total == 1 else "do"
    console.print(Text(f"{counted(total, 'cell')} {do} not train ({by_role})."))
    if roles[Role.REPORTED]:
        console.print(
            "Cells with the role reported repeat a failure that users reported: on the affected "
            "stacks they are expected to fail."
        )


def show_next(console: Console, failures: Sequence[Record], tables: Path, *, verbose: bool) -> None:
    """Print commands and files to look at."""
    rows = [(str(short_path(tables / "matrix.md")), "every cell (also csv, json, parquet)")]
    if failures and not verbose:
        rows.append(("nox -s table -- -v", "every failure with its message"))
    if failures:
        rows.append((f"gradmatrix why {cell_name(failures[0])}", "why this cell fails"))
        stack = failures[0].cell.stack
        rows.append((f"gradmatrix upgrade {stack} --to latest", "what an upgrade would change"))
    console.print(Text("\nNext", style="bold"))
    width = max(len(what) for what, _ in rows)
    for what, why in rows:
        console.print(Text(f"  {what:{width}}  {why}"), soft_wrap=True)
    console.print(Text("gradmatrix X is nox -s gradmatrix -- X in a checkout.", style="dim"))


def cell_name(record: Record) -> str:
    """A cell as people type it."""
    cell = record.cell
    return f"{cell.stack}/{cell.scenario}/{cell.variant}"


def short_path(path: Path) -> Path:
    """``path`` as seen from the working directory, if it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def show_matrix(console: Console, published: Published, stacks: Sequence[str]) -> None:
    """Print every judged cell with a column for each stack; misuse is in a table of its own."""
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
    """Print a grid as one table, or as several if the console is too narrow."""
    fit = max(1, (console.width - NAMES_WIDTH) // COLUMN_WIDTH)
    for start in range(0, len(whole.stacks), fit):
        console.print(rich_table(title, whole.columns(start, start + fit)))


def rich_table(title: str, part: Grid) -> Table:
    """A grid as a table; the name of a scenario is written once."""
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


def show_failures(console: Console, records: Mapping[Cell, Record]) -> None:
    """Print a line for each failed cell, and the command that repeats one.

    A terminal cuts a line at its width; a file and a log of CI get the whole line.
    """
    red = failed(records.values())
    if not red:
        return
    roles = Counter(record.role.value for record in red)
    counts = tally({role.value: roles[role.value] for role in Role})
    console.print(Text(f"\nDid not pass: {counts}", style="bold"))
    whole = {
        record.cell.stack: record for record in red if phase_of(record.outcome) in NOT_INSTALLED
    }
    for stack, record in whole.items():
        text = f"  ✗ {stack}  all of its cells  {record.outcome}  {one_line(record.message)}"
        console.print(Text(text), soft_wrap=True)
    red = [record for record in red if record.cell.stack not in whole]
    if not red:
        return
    for record in red:
        note = gradient_note(record.outcome, record.gradient)
        gradient = f" ({note})" if note else ""
        where = f"{record.cell.stack}  {record.cell.scenario}/{record.cell.variant} ({record.role})"
        console.print(
            Text(f"  ✗ {where}  {record.outcome}{gradient}  {one_line(record.message)}"),
            overflow="ellipsis" if console.is_terminal else "ignore",
            no_wrap=True,
            crop=console.is_terminal,
        )
    first = red[0].cell
    command = REPEAT.format(stack=first.stack, scenario=first.scenario, variant=first.variant)
    console.print(Text(f"To repeat one: {command}"), soft_wrap=True)


def show_plan(console: Console, scenarios: Mapping[str, Scenario]) -> None:
    """Print a line for each scenario and variant."""
    for scenario in scenarios.values():
        roles = Counter(variant.role.value for variant in scenario.variants)
        console.print(Text(f"{scenario.name}: {scenario.title}", style="bold"))
        console.print(Text(f"  {tally(roles)}", style="dim"))
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
"""The most differences of losses that are shown; a report in a file has all of them."""
MOST_TRANSITIVE = 12
"""The most packages that are named of those that no stack requires by name."""


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Print a comparison: the verdict, the changed cells, speed, losses and packages."""
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
    """Print a section: its title and its causes."""
    line(console, "")
    line(console, f"{section.title} ({section.count})", "bold")
    line(console, section.note, "dim")
    for item in section.items:
        show_item(console, item)


def show_item(console: Console, item: Item) -> None:
    """Print a cause: its cells, its diagnosis and its remedy."""
    line(console, f"{item.mark} {item.title}", MARKS.get(item.change, ""), 2)
    for each in item.cells:
        line(console, str(each), "bold", 4)
    for text in item.lines:
        line(console, text, "", 4)
    if item.advice:
        line(console, f"→ {item.advice}", "cyan", 4)


def show_speed(console: Console, comparison: Comparison) -> None:
    """Print what was measured side by side."""
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
    """Print how far losses drifted apart, the largest differences first."""
    drift = drift_summary(comparison)
    if not drift:
        return
    line(console, "")
    line(console, "Drift of losses", "bold")
    line(
        console,
        f"{drift} Differences are relative to the largest loss of both sides. They are not judged.",
        "dim",
    )
    apart = [each for each in drifted(comparison) if each.largest]
    for each in apart[:MOST_DRIFTED]:
        line(console, f"{each.words}: {'; '.join(map(str, each.cells))}", "", 2)
    if len(apart) > MOST_DRIFTED:
        line(
            console,
            f"… and {len(apart) - MOST_DRIFTED} more with smaller differences. A report in a file has all of them.",
            "dim",
            2,
        )


def show_packages(console: Console, pair: Pair, *, several: bool) -> None:
    """Print which packages changed; those that no stack requires by name are on one line."""
    line(console, "")
    line(console, f"Changed packages{f' of {pair.candidate.name}' if several else ''}", "bold")
    line(console, moved_summary(pair), "dim")
    for each in direct(pair):
        line(console, f"{each.name:20} {move(each)}", "", 2)
    others = transitive(pair)
    if others:
        line(console, f"also: {few([*map(str, others)], MOST_TRANSITIVE)}", "dim", 2)


def line(console: Console, text: str, style: str = "", indent: int = 0) -> None:
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
