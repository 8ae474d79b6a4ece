"""``capsule`` and ``reproduce``: one published cell, for others and here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness import address, capsule, disk, terminal
from harness import reproduce as again
from harness.commands.options import add
from harness.errors import UserError
from harness.lock import requirements_path
from harness.publish.text import one_line

if TYPE_CHECKING:
    import argparse

    from harness.model import Record
    from harness.project import Project

CELL = "STACK/SCENARIO/VARIANT, and /DEVICE where it is not the first one"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add these commands to the command line."""
    text = "write one self-contained script that reproduces a published failure with uv run"
    write = add(commands, "capsule", capsule_command, text)
    write.add_argument("cell", metavar="CELL", help=CELL)
    write.add_argument("--output", type=Path, metavar="FILE", help="write it there (default: print it)")
    write.add_argument("--any", action="store_true", help="also of a cell that passed")

    text = "install a published cell's lock, run it, and say whether its verdict holds here (0), or not (1)"
    add(commands, "reproduce", reproduce_command, text).add_argument("cell", metavar="CELL", help=CELL)


def capsule_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``capsule``: write it, or print it."""
    record = found(options.cell, project)
    scenario = address.scenario_of(record, project)
    capsule.refuse(record, scenario, everything=options.any)
    lock = address.lock_of(record, project)
    requirements = requirements_path(lock.stack, project.locks_folder).read_text(encoding="utf-8")
    source = Path(scenario.path).read_text(encoding="utf-8")
    name = options.output.name if options.output else "FILE"
    text = capsule.write(record, lock, requirements, scenario, source, file=name)
    if record.inputs.get("scenario") != scenario.source_digest[:16]:
        note = "note: the scenario's source has changed since this was published; run the capsule before you send it"
        Console(stderr=True, highlight=False).print(Text(note), soft_wrap=True)
    if options.output is None:
        sys.stdout.write(text)
        return 0
    if not options.output.absolute().parent.is_dir():
        raise UserError(
            f"{options.output} cannot be written.", cause="its folder is not there", next_step="make the folder first"
        )
    disk.write_atomically(options.output, text.encode())
    console.print(Text(f"{options.output} is written; to see it fail: uv run {options.output}"), soft_wrap=True)
    return 0


def reproduce_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``reproduce``: 0 the verdict holds, 1 it differs."""
    record = found(options.cell, project)
    with terminal.Display(console) as display:
        here = again.reproduce(project, record, lambda text: display.stage(record.cell.stack, text))
    console.print(side_by_side(here))
    for note in here.notes:
        console.print(Text(f"note: {one_line(note)}"), soft_wrap=True)
    verdict = "The published verdict holds here." if here.holds else "The published verdict does not hold here."
    console.print(Text(verdict, style="green" if here.holds else "red"))
    return 0 if here.holds else 1


def found(text: str, project: Project) -> Record:
    """The published record of the cell that ``text`` names."""
    return address.find(text, address.published(project), project.matrix.run.devices)


def side_by_side(here: again.Reproduced) -> Table:
    """The published verdict and the one of this machine."""
    then = here.published
    table = Table("", f"published {then.recorded_at:%Y-%m-%d}", "here", title=str(then.cell), title_justify="left")
    passed = {True: "yes", False: "no", None: "not judged"}
    table.add_row("outcome", then.outcome, here.outcome)
    table.add_row("gradient", then.gradient or "–", here.gradient or "–")
    table.add_row("passed", passed[then.passed], passed[here.passed])
    table.add_row("message", Text(one_line(then.message)), Text(one_line(here.message)))
    return table
