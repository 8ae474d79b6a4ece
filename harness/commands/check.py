"""``check``: the scenarios in an environment that is there already."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.text import Text

from harness import check, terminal
from harness.commands.options import add
from harness.environment import THIS_ENVIRONMENT
from harness.interpreter import interpreter
from harness.publish.text import one_line
from harness.remedy import explained

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from harness.check import Checked, Report
    from harness.project import Project

EXIT_CODES = """
exit code:
  0  every cell that was judged here and on the nearest published stack passes, or fails in the same way
  1  a cell fails here that passes on the nearest published stack, or fails there in another way;
     with --strict: any cell fails, misuse of which the environment says nothing included
  2  it could not be done
"""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    text = "run the scenarios in an existing environment, install and record nothing, and compare with the matrix"
    parser = add(commands, "check", check_command, text)
    parser.epilog, parser.formatter_class = EXIT_CODES, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--python",
        type=Path,
        metavar="PATH",
        help="the Python, or the environment's folder (default: the first one with torch of this one, VIRTUAL_ENV, "
        "CONDA_PREFIX and PATH)",
    )
    parser.add_argument("--scenario", action="append", default=[], metavar="NAME", help="only this one (repeatable)")
    parser.add_argument(
        "--cell", action="append", default=[], metavar="SCENARIO/VARIANT", help="only this (repeatable)"
    )
    parser.add_argument("--device", action="append", default=[], metavar="NAME", help="only this device: cpu or cuda")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where any cell fails")
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def check_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``check``: 0 as the nearest stack, 1 not so."""
    selection = project.selection(scenario=options.scenario, cell=options.cell, device=options.device, fresh=True)
    python = interpreter(options.python).absolute()  # cells have a working directory of their own
    if options.json:
        report = check.check(project, python, selection)
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        with terminal.Display(console) as display:
            report = check.check(project, python, selection, lambda text: display.stage(THIS_ENVIRONMENT, text))
        for line in lines(report):
            console.print(Text(line), soft_wrap=True)
    failing = [*report.failing(misuse=False), *report.failing(misuse=True)]
    return 1 if (failing if options.strict else report.unexpected) else 0


def lines(report: Report) -> Iterator[str]:
    """The report for a person."""
    yield f"{report.python}: {listed(report.versions)}"
    if report.nearest:
        differs = {n: v for n, v in report.nearest_versions.items() if report.versions.get(n) != v}
        yield f"nearest published stack: {report.nearest}{f', which has {listed(differs)}' if differs else ''}"
    else:
        yield "no stack is published to compare with"
    yield from section(report, misuse=False)
    yield from section(report, misuse=True)
    if report.unjudged:
        counts = Counter(cell.outcome for cell in report.unjudged)
        yield f"\nNot judged: {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}"
    if report.better:
        names = ", ".join(f"{cell.scenario}/{cell.variant} ({cell.nearest})" for cell in report.better)
        yield f"\nIt passes {len(report.better)} that {report.nearest} fails: {names}"
    if report.unexpected:
        yield f"\n{len(report.unexpected)} of these failures are not as on {report.nearest}, as is said beside each."


def section(report: Report, *, misuse: bool) -> Iterator[str]:
    """What fails, in groups of what is like it in the published matrix, each cell with why."""
    judged = sum(cell.passed is not None and (cell.role.value == "misuse") is misuse for cell in report.cells)
    failing = report.failing(misuse=misuse)
    if not judged:
        return
    what = (
        f"says nothing about {len(failing)} of {judged} kinds of misuse"
        if misuse
        else f"fails {len(failing)} of {judged}"
    )
    yield f"\nYour environment {what}{':' if failing else '.'}"
    for words, cells in report.groups(misuse=misuse).items():
        yield f"\n  {len(cells)} {words}:"
        yield from told(cells, report.nearest)


def told(cells: Sequence[Checked], nearest: str | None) -> Iterator[str]:
    """Each cell with its outcome, and below the last of those that say the same what that is."""
    said = [why(cell) for cell in cells]
    for cell, lines, following in zip(cells, said, [*said[1:], ()], strict=True):
        device = "" if cell.device == "cpu" else f" ({cell.device})"
        differs = "" if cell.as_nearest else f", on {nearest} {'it passes' if cell.nearest_passed else cell.nearest}"
        yield f"    ✗ {cell.scenario}/{cell.variant}{device}  {cell.outcome}{differs}"
        if lines != following:
            yield from (f"        {line}" for line in lines)


def why(cell: Checked) -> tuple[str, ...]:
    """The diagnosis and what helps, or else what was raised or counted."""
    text = explained(cell.diagnosis, cell.remedy) if cell.diagnosis else (cell.message,)
    return tuple(one_line(line) for line in text if line)


def listed(versions: dict[str, str]) -> str:
    """Names and versions."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())
