"""``trace``: one script of the user's own, under the observer.

``why``: what the records say of one cell that does not train.

``check``: the scenarios in an environment that is there already.

``capsule`` and ``reproduce``: one published cell, for others and here.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradmatrix.cli import show as terminal
from gradmatrix.cli.options import ROOT, add
from gradmatrix.core import files
from gradmatrix.core.errors import UserError
from gradmatrix.core.outcomes import TRAINS
from gradmatrix.core.text import one_line
from gradmatrix.judge.causes import explain, remedy_on_its_stack
from gradmatrix.judge.diagnosis import diagnose, false_alarms
from gradmatrix.judge.versions import remedy_near
from gradmatrix.run import project as address
from gradmatrix.run.plan import observer_digest
from gradmatrix.stacks.environment import THIS_ENVIRONMENT, interpreter
from gradmatrix.stacks.lock import requirements_path
from gradmatrix.trace import capsule, check
from gradmatrix.trace import reproduce as again
from gradmatrix.trace.trace import Finding, command_line, headline, report, trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradmatrix.core.model import Published, Record
    from gradmatrix.core.observation import Observation
    from gradmatrix.judge.causes import Remedy
    from gradmatrix.judge.diagnosis import Diagnosis
    from gradmatrix.run.project import Project
    from gradmatrix.trace.check import Checked, Report


USAGE = "gradmatrix trace [--python PATH] [--steps N] [--json] [--output FILE] (SCRIPT | -m MODULE) [ARGS ...]"


def register_trace(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line; of a project it wants published remedies only."""
    text = "run a training script unmodified and say whether, and why not, its gradient flows"
    parser = commands.add_parser(
        "trace", help=text, description=text, usage=USAGE, allow_abbrev=False
    )
    parser.set_defaults(command=trace_command, root=ROOT, matrix=None, results=None)
    parser.add_argument(
        "--python",
        type=Path,
        metavar="PATH",
        help="the Python, or the environment's folder (default: the first one with torch of this one, VIRTUAL_ENV, "
        "CONDA_PREFIX and PATH)",
    )
    parser.add_argument(
        "--steps", type=positive, metavar="N", help="stop the script after N optimizer steps"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON document as the last line of the output"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write that JSON document to FILE"
    )
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE",
        help="run a module, as python -m does",
    )
    parser.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT",
        help="the script, or a command of its environment such as torchrun; all that follows is its own",
    )


def positive(text: str) -> int:
    """A number of steps."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one step")
    return number


def trace_command(options: argparse.Namespace, project: Project, _console: Console) -> int:
    """``trace``: the script's own exit code."""
    words = options.module if options.module is not None else options.script
    if not words:
        raise UserError(
            "Nothing to trace.", cause="there is neither a script nor a module", next_step=USAGE
        )
    refuse_unwritable(options.output)
    command = command_line(interpreter(options.python), words, module=options.module is not None)
    finding = trace(command, steps=options.steps, remedy_for=partial(published_remedy, project))
    document = msgspec.json.encode(finding)
    if options.output is not None:
        files.write_atomically(options.output, document + b"\n")
    if options.json:
        sys.stdout.write(f"\n{document.decode()}\n")  # the script's last line may lack its end
    else:
        show(finding, Console(stderr=True, highlight=False))
    return finding.exit_code


def published_remedy(project: Project, diagnosis: Diagnosis, seen: Observation) -> Remedy | None:
    """What the matrix knows; nothing where there is none, and no reason to lose what was found."""
    try:
        published = project.published(project.store.everything().values())
    except (OSError, UserError):
        return None
    return remedy_near(published, diagnosis, seen.environment)


def refuse_unwritable(output: Path | None) -> None:
    """UserError where the document could not be written when the script has run."""
    if output is None or (output.absolute().parent.is_dir() and not output.is_dir()):
        return
    cause = "it is a folder" if output.is_dir() else "its folder is not there"
    raise UserError(
        f"{output} cannot be written.", cause=cause, next_step="name a file in a folder that exists"
    )


def show(finding: Finding, console: Console) -> None:
    """Print the report, below what the script printed."""
    style = "bold green" if finding.outcome == TRAINS else "bold red"
    console.print(
        Text.assemble("gradmatrix trace: ", (one_line(headline(finding)), style)), soft_wrap=True
    )
    for line in report(finding):
        console.print(Text(f"  {one_line(line)}"), soft_wrap=True)


def register_why(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    why = add(
        commands,
        "why",
        why_command,
        "say why a cell of the matrix does not train: module, line, remedy",
    )
    why.add_argument(
        "cell", metavar="STACK/SCENARIO/VARIANT[/DEVICE]", help="a cell that has a record"
    )


def why_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``why``: from the records alone, nothing is run."""
    published = project.published(project.store.everything().values())
    record = address.find(
        options.cell, {r.cell: r for r in published.records}, project.matrix.run.devices
    )
    gradient = f", gradient {record.gradient}" if record.gradient else ""
    console.print(Text(f"{record.cell}: {record.outcome}{gradient}", style="bold"), soft_wrap=True)
    for line in why_lines(published, record):
        console.print(Text(f"  {one_line(line)}"), soft_wrap=True)
    return 0


def why_lines(published: Published, record: Record) -> Iterator[str]:
    """What there is to say of a cell."""
    found = diagnose(record.observation) if record.observation is not None else None
    if record.message and (found is None or record.message not in found.text):
        yield record.message
    if record.observation is None:
        return
    if record.inputs.get("observer", "")[:16] != observer_digest()[:16]:
        yield "This record is of an earlier state of the observer: run the cell again for what it sees now."
    if found is not None:
        remedy = remedy_on_its_stack(
            found.cause, published.scenarios, published.records, record.cell
        )
        yield from explain(found, remedy)
    for message in false_alarms(record.observation):
        yield f"False alarm, everything that should learn does: {message}"


EXIT_CODES = """
exit code:
  0  every cell that was judged here and on the nearest published stack passes, or fails in the same way
  1  a cell fails here that passes on the nearest published stack, or fails there in another way;
     with --strict: any cell fails, misuse of which the environment says nothing included
  2  it could not be done
"""


def register_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    parser.add_argument(
        "--scenario", action="append", default=[], metavar="NAME", help="only this one (repeatable)"
    )
    parser.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="SCENARIO/VARIANT",
        help="only this (repeatable)",
    )
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="only this device: cpu or cuda",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 where any cell fails")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document and nothing else"
    )


def check_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``check``: 0 as the nearest stack, 1 not so."""
    selection = project.selection(
        scenario=options.scenario, cell=options.cell, device=options.device, fresh=True
    )
    python = interpreter(options.python).absolute()  # cells have a working directory of their own
    if options.json:
        report = check.check(project, python, selection)
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        with terminal.Display(console) as display:
            report = check.check(
                project, python, selection, lambda text: display.stage(THIS_ENVIRONMENT, text)
            )
        for line in check_lines(report):
            console.print(Text(line), soft_wrap=True)
    failing = [*report.failing(misuse=False), *report.failing(misuse=True)]
    return 1 if (failing if options.strict else report.unexpected) else 0


def check_lines(report: Report) -> Iterator[str]:
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
        names = ", ".join(
            f"{cell.scenario}/{cell.variant} ({cell.nearest})" for cell in report.better
        )
        yield f"\nIt passes {len(report.better)} that {report.nearest} fails: {names}"
    if report.unexpected:
        yield f"\n{len(report.unexpected)} of these failures are not as on {report.nearest}, as is said beside each."


def section(report: Report, *, misuse: bool) -> Iterator[str]:
    """What fails, in groups of what is like it in the published matrix, each cell with why."""
    judged = sum(
        cell.passed is not None and (cell.role.value == "misuse") is misuse for cell in report.cells
    )
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
        differs = (
            ""
            if cell.as_nearest
            else f", on {nearest} {'it passes' if cell.nearest_passed else cell.nearest}"
        )
        yield f"    ✗ {cell.scenario}/{cell.variant}{device}  {cell.outcome}{differs}"
        if lines != following:
            yield from (f"        {line}" for line in lines)


def why(cell: Checked) -> tuple[str, ...]:
    """The diagnosis and what helps, or else what was raised or counted."""
    text = explain(cell.diagnosis, cell.remedy) if cell.diagnosis else (cell.message,)
    return tuple(one_line(line) for line in text if line)


def listed(versions: dict[str, str]) -> str:
    """Names and versions."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


CELL = "STACK/SCENARIO/VARIANT, and /DEVICE where it is not the first one"


def register_capsule(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add these commands to the command line."""
    text = "write one self-contained script that reproduces a published failure with uv run"
    write = add(commands, "capsule", capsule_command, text)
    write.add_argument("cell", metavar="CELL", help=CELL)
    write.add_argument(
        "--output", type=Path, metavar="FILE", help="write it there (default: print it)"
    )
    write.add_argument("--any", action="store_true", help="also of a cell that passed")

    text = "install a published cell's lock, run it, and say whether its verdict holds here (0), or not (1)"
    add(commands, "reproduce", reproduce_command, text).add_argument(
        "cell", metavar="CELL", help=CELL
    )


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
            f"{options.output} cannot be written.",
            cause="its folder is not there",
            next_step="make the folder first",
        )
    files.write_atomically(options.output, text.encode())
    console.print(
        Text(f"{options.output} is written; to see it fail: uv run {options.output}"),
        soft_wrap=True,
    )
    return 0


def reproduce_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``reproduce``: 0 the verdict holds, 1 it differs."""
    record = found(options.cell, project)
    with terminal.Display(console) as display:
        here = again.reproduce(project, record, lambda text: display.stage(record.cell.stack, text))
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


def found(text: str, project: Project) -> Record:
    """The published record of the cell that ``text`` names."""
    return address.find(text, address.published(project), project.matrix.run.devices)


def side_by_side(here: again.Reproduced) -> Table:
    """The published verdict and the one of this machine."""
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
    table.add_row("message", Text(one_line(then.message)), Text(one_line(here.message)))
    return table
