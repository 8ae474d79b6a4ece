"""A script, a cell or an environment: ``trace``, ``check``, ``capsule``, ``reproduce``."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradmatrix.cli.documents import reproduced_cell
from gradmatrix.cli.options import print_bytes, print_json
from gradmatrix.cli.progress import Display
from gradmatrix.core import files
from gradmatrix.core.errors import refuse_unwritable
from gradmatrix.core.model import Role
from gradmatrix.core.outcomes import Outcome
from gradmatrix.core.text import counted, one_line, versioned
from gradmatrix.judge.causes import explain
from gradmatrix.run import lookup
from gradmatrix.stacks.environment import THIS_ENVIRONMENT
from gradmatrix.stacks.interpreter import interpreter
from gradmatrix.stacks.lock import requirements_path
from gradmatrix.trace import capsule, check
from gradmatrix.trace.reproduce import message_of, reproduce
from gradmatrix.trace.trace import (
    INTERRUPTED,
    Finding,
    finish,
    headline,
    published_remedy,
    report,
    suspect,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from gradmatrix.run.project import Project
    from gradmatrix.trace.check import Checked, Report
    from gradmatrix.trace.reproduce import Reproduced


def trace_command(options: argparse.Namespace, project: Project, _console: Console) -> int:
    """Trace a script; the exit code is the script's own."""
    finding = finish(options.begun, partial(published_remedy, project))
    document = msgspec.json.encode(finding)
    if options.output is not None:
        files.write_atomically(options.output, document + b"\n")
    if options.json:
        print_bytes(b"\n" + document + b"\n")  # the script's last line may lack its end
    else:
        show_finding(finding, Console(stderr=True, highlight=False))
    return finding.exit_code


def show_finding(finding: Finding, console: Console) -> None:
    """Print the report on the error stream, after the output of the script."""
    head = (one_line(headline(finding)), style_of(finding))
    console.print(Text.assemble("gradmatrix trace: ", head), soft_wrap=True)
    for line in report(finding):
        console.print(Text(f"  {one_line(line)}"), soft_wrap=True)


def style_of(finding: Finding) -> str:
    """Green if it trains, red if it does not; yellow if that is doubtful, or was not judged."""
    outcome = Outcome(finding.outcome)
    if outcome.trains and finding.diagnosis is None and not suspect(finding):
        return "bold green"
    failed = outcome.judged and not outcome.trains and outcome != INTERRUPTED
    return "bold red" if failed else "bold yellow"


def check_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Check an environment; the exit code is 1 if a cell fails that the nearest stack passes.

    It is also 1 if the cell fails there in another way, and with ``--strict`` if any cell fails.
    """
    selection = lookup.select(
        project, scenario=options.scenario, cell=options.cell, device=options.device, fresh=True
    )
    python = interpreter(options.python).absolute()  # cells have a working directory of their own
    if options.json:
        report = check.check(project, python, selection)
        print_json(report)
    else:
        with Display(console) as display:
            stage = partial(display.stage, THIS_ENVIRONMENT)
            report = check.check(project, python, selection, stage)
        named = options.scenario or options.cell
        for line in check_lines(report, () if named else project.matrix.run.further):
            console.print(Text(line), soft_wrap=True)
    failing = [*report.failing(misuse=False), *report.failing(misuse=True)]
    return 1 if (failing if options.strict else report.unexpected) else 0


def check_lines(report: Report, left: Sequence[str]) -> Iterator[str]:
    """The report as lines of text; the ``left`` scenarios were not run."""
    yield f"{report.python}: {versioned(report.versions)}"
    if report.nearest:
        there = report.nearest_versions.items()
        differs = {name: v for name, v in there if report.versions.get(name) != v}
        which = f", which has {versioned(differs)}" if differs else ""
        yield f"nearest published stack: {report.nearest}{which}"
    else:
        yield "there is no published stack to compare with"
    yield from failing_lines(report, misuse=False)
    yield from failing_lines(report, misuse=True)
    if report.unjudged:
        yield f"\n{counted(len(report.unjudged), 'cell')} not judged:"
        reasons = Counter(f"{cell.outcome}: {one_line(cell.message)}" for cell in report.unjudged)
        for reason, cells in reasons.most_common():
            yield f"  {cells} {reason.replace('this stack', 'your environment')}"
    if report.better:
        names = ", ".join(
            f"{cell.scenario}/{cell.variant} ({cell.nearest})" for cell in report.better
        )
        yield f"\nIt passes {len(report.better)} cells that {report.nearest} fails: {names}"
    if report.unexpected:
        differ = f"{len(report.unexpected)} of these failures differ from {report.nearest}"
        yield f"\n{differ}: see each cell."
    if left:
        what = counted(len(left), "further scenario")
        yield f"\n{what} did not run. To run one: --scenario NAME, of {', '.join(left)}"


def failing_lines(report: Report, *, misuse: bool) -> Iterator[str]:
    """The failing cells with reasons, grouped by the published stacks that fail in the same way."""
    judged = [
        cell.scenario
        for cell in report.cells
        if cell.passed is not None and (cell.role is Role.MISUSE) is misuse
    ]
    failing = report.failing(misuse=misuse)
    if not judged:
        return
    names = dict.fromkeys(judged)
    of = f"of {counted(len(names), 'scenario')} ({', '.join(names)}){':' if failing else '.'}"
    if not misuse:
        yield f"\nYour environment fails {len(failing)} of {counted(len(judged), 'cell')} {of}"
    elif failing:
        yield f"\nNo error and no warning tells of {len(failing)} of {len(judged)} mistakes {of}"
    else:
        yield f"\nAn error or a warning tells of each of {counted(len(judged), 'mistake')} {of}"
    for words, cells in report.groups(misuse=misuse).items():
        yield f"\n  {counted(len(cells), 'mistake' if misuse else 'cell')}, {words}:"
        yield from cell_lines(cells, report.nearest)


def cell_lines(cells: Sequence[Checked], nearest: str | None) -> Iterator[str]:
    """Each cell with its outcome and reason.

    If consecutive cells have the same reason, it stands once below the last of them.
    """
    reasons = [why(cell) for cell in cells]
    for cell, lines, following in zip(cells, reasons, [*reasons[1:], ()], strict=True):
        device = "" if cell.device == "cpu" else f" ({cell.device})"
        there = "it passes" if cell.nearest_passed else cell.nearest
        differs = "" if cell.as_nearest else f", on {nearest} {there}"
        yield f"    ✗ {cell.scenario}/{cell.variant}{device}  {cell.outcome}{differs}"
        if lines != following:
            yield from (f"        {line}" for line in lines)


def why(cell: Checked) -> tuple[str, ...]:
    """The diagnosis and the remedy of a cell; its message if there is no diagnosis."""
    text = explain(cell.diagnosis, cell.remedy) if cell.diagnosis else (cell.message,)
    return tuple(one_line(line) for line in text if line)


def capsule_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Write or print a script that reproduces a cell."""
    refuse_unwritable(options.output)
    known = lookup.published(project)
    record = lookup.find(options.cell, known, project)
    scenario = lookup.scenario_of(record, project)
    capsule.refuse(record, scenario, everything=options.any, others=known.values())
    lock = lookup.lock_of(record, project)
    requirements = requirements_path(lock.stack, project.locks_folder).read_text(encoding="utf-8")
    source = Path(scenario.path).read_text(encoding="utf-8")
    name = options.output.name if options.output else "FILE"
    text = capsule.write(
        record, lock, requirements, scenario, source, file=name, others=known.values()
    )
    if record.inputs.get("scenario") != scenario.source_digest[:16]:
        note = (
            "note: the scenario has changed since this cell was published; "
            "run the capsule before you send it"
        )
        Console(stderr=True, highlight=False).print(Text(note), soft_wrap=True)
    if options.output is None:
        sys.stdout.write(text)
        return 0
    files.write_atomically(options.output, text.encode())
    console.print(
        Text(f"Written: {options.output}. To see it fail: uv run {options.output}"),
        soft_wrap=True,
    )
    return 0


def reproduce_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run a published cell here; the exit code is 1 if its verdict differs."""
    record = lookup.find(options.cell, lookup.published(project), project)
    with Display(console) as display:
        here = reproduce(project, record, partial(display.stage, record.cell.stack))
    if options.json:
        print_json(reproduced_cell(here))
        return 0 if here.holds else 1
    console.print(side_by_side(here))
    for note in here.notes:
        console.print(Text(f"note: {one_line(note)}"), soft_wrap=True)
    verdict = (
        "The published verdict holds here."
        if here.holds
        else "The published verdict does not hold here."
    )
    console.print(Text(verdict, style="green" if here.holds else "red"))
    return 0 if here.holds else 1


def side_by_side(here: Reproduced) -> Table:
    """A table with the published verdict and that of this machine."""
    then = here.published
    table = Table(
        "",
        f"published {then.recorded_at:%Y-%m-%d}",
        "here",
        title=str(then.cell),
        title_justify="left",
    )
    passed = {True: "yes", False: "no", None: "not judged"}
    table.add_row("outcome", then.outcome, here.outcome)
    table.add_row("gradient", then.gradient or "–", here.gradient or "–")
    table.add_row("passed", passed[then.passed], passed[here.passed])
    table.add_row("message", Text(one_line(message_of(then))), Text(one_line(here.message)))
    return table
