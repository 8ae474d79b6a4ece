"""``audit``: known faults are put into healthy variants, to see whether they are found and named."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from harness import audit
from harness.commands.options import add, chosen
from harness.publish.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.status import Status

    from harness.audit import Audited
    from harness.project import Project

HEALTHY_RUNS = 100


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    text = "put known faults into scenarios that train: is each detected, and named at the right module and line?"
    parser = add(commands, "audit", audit_command, text)
    parser.add_argument("stacks", nargs="*", metavar="STACK", help="stacks of matrix.toml (default: the core ones)")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME", help="only this fault (repeatable)")
    parser.add_argument(
        "--seeds", type=whole, default=1, metavar="N", help="how often each fault is injected, elsewhere each time"
    )
    parser.add_argument(
        "--healthy",
        type=whole,
        default=HEALTHY_RUNS,
        metavar="N",
        help=f"runs without a fault, over all stacks, of which none may have a finding (default: {HEALTHY_RUNS})",
    )


def whole(text: str) -> int:
    """A count from 0 on."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("0 or more")
    return number


def audit_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``audit``: 1 where a fault is not detected, too few are named right, or a healthy run has a finding."""
    faults = audit.chosen_faults(options.fault)
    stacks = chosen(project, options.stacks, everything=False)
    done: list[Audited] = []
    with console.status("") as status:
        for position, stack in enumerate(stacks):
            healthy = options.healthy // len(stacks) + (position < options.healthy % len(stacks))
            asked = [
                *audit.faults_for(project, stack, faults, options.seeds),
                *audit.healthy_for(project, stack, healthy),
            ]
            show = partial(progress, status, stack.name)
            for each in audit.audit(project, stack, asked, show):
                done.append(each)
                if each.missed:
                    console.print(Text(one_line(str(each))), soft_wrap=True)
    console.print(table(done))
    runs = [each for each in done if each.healthy]
    console.print(f"{len(runs)} healthy runs, {sum(each.detected for each in runs)} with a finding")
    problems = audit.shortcomings(done)
    for problem in problems:
        console.print(Text(problem, style="red"), soft_wrap=True)
    return 1 if problems else 0


def progress(status: Status, stack: str, text: str) -> None:
    """Show what takes a while now."""
    status.update(Text(f"{stack} {text}"))


def table(done: Sequence[Audited]) -> Table:
    """A row for each kind of fault: how many were detected, and named at the right module and line."""
    result = Table("fault", "detected", "module", "line")
    for tally in audit.tallies(done):
        result.add_row(tally.name, str(tally.detected), str(tally.module), str(tally.line))
    return result
