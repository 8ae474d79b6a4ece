"""``why``: what the records say of one cell that does not train."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from harness import address
from harness.commands.options import add
from harness.diagnosis import diagnose, false_alarms
from harness.plan import observer_digest
from harness.publish.text import one_line
from harness.remedy import explained, remedy_on_its_stack

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rich.console import Console

    from harness.model import Published, Record
    from harness.project import Project


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    why = add(commands, "why", why_command, "say why a cell of the matrix does not train: module, line, remedy")
    why.add_argument("cell", metavar="STACK/SCENARIO/VARIANT[/DEVICE]", help="a cell that has a record")


def why_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``why``: from the records alone, nothing is run."""
    published = project.published(project.store.everything().values())
    record = address.find(options.cell, {r.cell: r for r in published.records}, project.matrix.run.devices)
    gradient = f", gradient {record.gradient}" if record.gradient else ""
    console.print(Text(f"{record.cell}: {record.outcome}{gradient}", style="bold"), soft_wrap=True)
    for line in lines(published, record):
        console.print(Text(f"  {one_line(line)}"), soft_wrap=True)
    return 0


def lines(published: Published, record: Record) -> Iterator[str]:
    """What there is to say of a cell."""
    found = diagnose(record.observation) if record.observation is not None else None
    if record.message and (found is None or record.message not in found.text):
        yield record.message
    if record.observation is None:
        return
    if record.inputs.get("observer", "")[:16] != observer_digest()[:16]:
        yield "This record is of an earlier state of the observer: run the cell again for what it sees now."
    if found is not None:
        remedy = remedy_on_its_stack(found.cause, published.scenarios, published.records, record.cell)
        yield from explained(found, remedy)
    for message in false_alarms(record.observation):
        yield f"False alarm, everything that should learn does: {message}"
