"""The screens of the matrix: what trains, every cell, every failure, and the list of scenarios."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePath
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gradmatrix.compare.requirements import LATEST
from gradmatrix.core.model import Role
from gradmatrix.core.outcomes import NOT_INSTALLED, gradient_note, phase_of
from gradmatrix.core.text import counted, one_line, plain, tally
from gradmatrix.judge.change import count_outcomes
from gradmatrix.publish.formats import FORMATS
from gradmatrix.publish.rows import Grid, grid, lacks_device, rows_of
from gradmatrix.run.stack import failed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rich.console import Console

    from gradmatrix.core.model import Cell, Published, Record, Scenario
    from gradmatrix.run.project import Agreement


NAMES_WIDTH = 56
"""Characters for the names of scenario and variant."""
COLUMN_WIDTH = 24
"""Characters for a stack."""
MOST_COLUMNS = 4
"""The most stacks that the overview shows side by side; more of them get a line each."""
MOST_STACKS = 15
"""The most stacks with a line in the overview, so that it fits on a screen."""
MOST_DIFFERING = 4
"""The most cells that the overview names of those that differ from the published matrix."""
STYLES = {"✓": "green", "✗": "red", "–": "dim"}
TABLE_FILE = "matrix.md"
"""The file of ``FORMATS`` that people read."""
REPEAT = "gradmatrix run {stack} --cell {scenario}/{variant} --fresh"


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
    show_flaky(console, records)
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
        console.print("Nothing to compare: no published cell of these stacks ran here.")
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


def show_flaky(console: Console, records: Iterable[Record]) -> None:
    """Print one of the cells whose outcome changes from run to run, and how many there are."""
    flaky = [record for record in records if record.flaky]
    if flaky:
        rate = count_outcomes(flaky[0].judged_runs)
        more = f" ({len(flaky)} cells are flaky)" if len(flaky) > 1 else ""
        text = one_line(f"flaky: {flaky[0].cell}: {rate}{more}")
        console.print(Text(text, style="yellow"), overflow="ellipsis", no_wrap=True)


def show_next(console: Console, failures: Sequence[Record], tables: Path, *, verbose: bool) -> None:
    """Print commands and files to look at."""
    others = ", ".join(other_formats())
    rows = [(str(short_path(tables / TABLE_FILE)), f"every cell (also {others})")]
    if failures and not verbose:
        rows.append(("gradmatrix table -v", "every failure with its message"))
    if failures:
        rows.append((f"gradmatrix why {cell_name(failures[0])}", "why this cell fails"))
    outdated = (record.cell.stack for record in failures if record.cell.stack != LATEST)
    stack = next(outdated, None)
    if stack is not None:
        rows.append((f"gradmatrix upgrade {stack} --to {LATEST}", "what an upgrade would change"))
    console.print(Text("\nNext", style="bold"))
    width = max(len(what) for what, _ in rows)
    for what, why in rows:
        console.print(Text(f"  {what:{width}}  {why}"), soft_wrap=True)


def other_formats() -> list[str]:
    """The other formats of the table in ``TABLE_FILE``, such as csv."""
    paths = map(PurePath, FORMATS)
    table = PurePath(TABLE_FILE)
    return [
        path.suffix[1:] for path in paths if path.stem == table.stem and path.suffix != table.suffix
    ]


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
            why = "the machine that made these records has no such device"
            console.print(Text(f"{device}: not judged, because {why}", style="dim"), soft_wrap=True)
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
