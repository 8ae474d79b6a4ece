"""``history`` and ``regressions``: what became of the published cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.text import Text

from harness import address, disk
from harness import history as histories
from harness.changes import newest
from harness.commands.options import add
from harness.errors import UserError
from harness.flips import of_one_cell
from harness.publish.feed import base_of
from harness.publish.grid import SYMBOLS
from harness.publish.regressions import as_issue, reported
from harness.publish.text import one_line, plain
from harness.store import Store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from harness.changes import Entry
    from harness.flips import Flip
    from harness.history import History
    from harness.model import Cell
    from harness.project import Project


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add these commands to the command line."""
    history = add(commands, "history", history_command, "print what became of a published cell, and what changed then")
    history.add_argument("cell", metavar="CELL", help="STACK/SCENARIO/VARIANT, and /DEVICE where it is not the first")

    text = "what fails at present and passed before its lock moved; 1 where there is anything, 0 where there is nothing"
    standing = add(commands, "regressions", regressions_command, text)
    standing.add_argument("--output", type=Path, metavar="FILE", help="write it there (default: print it)")
    standing.add_argument("--json", action="store_true", help="as data, not as the text of an issue")
    standing.add_argument("--base-url", metavar="URL", help="where results/ is served from, for whole links")


def history_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``history``: each entry of one cell with what may have changed its verdict."""
    history = load(project)
    cell = address.find(options.cell, newest(history.entries), project.matrix.run.devices).cell
    console.print(Text(str(cell), style="bold"), soft_wrap=True)
    for text in lines(history, cell):
        console.print(Text(text), soft_wrap=True)
    warn(history)
    return 0


def lines(history: History, cell: Cell) -> Iterator[str]:
    """An entry a line, and below it what may have changed the verdict."""
    entries = history.of(cell)
    by_entry = {id(flip.after): flip for flip in of_one_cell(entries, history.locks)}
    for each in entries:
        flip = by_entry.get(id(each))
        yield f"  {one_line(line(each, flip))}"
        if flip is not None and flip.why:
            yield f"    {one_line(flip.why)}"


def line(entry: Entry, flip: Flip | None) -> str:
    """One entry: when, what, how fast, under which lock."""
    verdict = "left the matrix" if entry.gone else f"{SYMBOLS[entry.passed]} {entry.outcome}"
    kind = f" ({flip.kind})" if flip is not None else ""
    rate = f", {entry.rate:g} steps/s" if entry.rate is not None else ""
    return f"{entry.at:%Y-%m-%d %H:%M} {verdict}{kind}{rate}, lock {entry.lock or 'none'}"


def regressions_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``regressions``: of the cells that are part of the matrix."""
    base = base_of(options.base_url)
    history = load(project)
    standing = history.standing({lock.stack for lock in project.known_locks()}, project.chosen_scenarios())
    published = Store(project.store.published, project.store.published)
    records = {
        cell: record
        for stack in dict.fromkeys(each.now.cell.stack for each in standing)
        for cell, record in published.of_stack(stack).items()
    }
    found = reported(standing, records, base)
    content = msgspec.json.encode(found).decode() + "\n" if options.json else as_issue(found, base)
    if options.output is None:
        console.print(Text(plain(content)), soft_wrap=True, end="")
    else:
        disk.write_atomically(options.output, content.encode())
    warn(history)
    return 1 if found else 0


def load(project: Project) -> History:
    """The history in results/; UserError where there is none."""
    if not project.history_folder.is_dir():
        raise UserError(
            f"There is no history in {project.results}.",
            cause="nothing was published there yet",
            next_step="nox -s publish",
        )
    return histories.load(project.history_folder)


def warn(history: History) -> None:
    """Say what could not be read, beside what is printed."""
    for problem in history.problems:
        Console(stderr=True, highlight=False).print(Text(f"warning: {plain(problem)}", style="yellow"), soft_wrap=True)
