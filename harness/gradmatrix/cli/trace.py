"""A script, a cell or an environment: ``trace``, ``why``, ``check``, ``capsule``, ``reproduce``."""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradmatrix.cli.documents import FoundMessages, found_message, reproduced_cell
from gradmatrix.cli.history import newest_table
from gradmatrix.cli.options import print_bytes, print_json
from gradmatrix.cli.progress import Display
from gradmatrix.core import files
from gradmatrix.core.errors import refuse_unwritable
from gradmatrix.core.model import Role
from gradmatrix.core.outcomes import NO_DEVICE, Outcome
from gradmatrix.core.text import counted, one_line, plain, versioned
from gradmatrix.judge.causes import explain, remedy_on_its_stack
from gradmatrix.judge.diagnosis import diagnose, false_alarms
from gradmatrix.publish.publication import sources_of
from gradmatrix.publish.rows import rows_of
from gradmatrix.publish.site.messages import messages
from gradmatrix.publish.site.tables import View
from gradmatrix.run import lookup
from gradmatrix.run.plan import observer_digest
from gradmatrix.stacks.environment import THIS_ENVIRONMENT
from gradmatrix.stacks.interpreter import interpreter
from gradmatrix.stacks.lock import requirements_path
from gradmatrix.trace import capsule, check
from gradmatrix.trace.reproduce import reproduce
from gradmatrix.trace.trace import INTERRUPTED, Finding, finish, headline, published_remedy, report

IS_CELL = re.compile(r"\S*/\S*")
"""What names a cell, or should; everything else is a message."""
MOST_MESSAGES = 3

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from gradmatrix.cli.documents import FoundMessage
    from gradmatrix.core.model import Published, Record
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
    """Green if it trains, red if it does not, yellow with a mistake, or if it was not judged."""
    outcome = Outcome(finding.outcome)
    if outcome.trains and finding.diagnosis is None:
        return "bold green"
    failed = outcome.judged and not outcome.trains and outcome != INTERRUPTED
    return "bold red" if failed else "bold yellow"


def why_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Say why a cell fails, from its record; or find a message, as the search of the pages does."""
    asked = pasted(options.cell)
    if not IS_CELL.fullmatch(asked):
        return find_message(asked, project, console, as_json=options.json)
    published = project.published(project.store.everything().values())
    known = {record.cell: record for record in published.records}
    record = lookup.find(asked, known, project)
    if options.json:
        there = [each for each in published.records if each.cell.stack == record.cell.stack]
        rows = rows_of(there, published.scenarios)
        print_json(next(row for row in rows if row.cell == record.cell))
        return 0
    gradient = f", gradient {record.gradient}" if record.gradient else ""
    console.print(Text(f"{record.cell}: {record.outcome}{gradient}", style="bold"), soft_wrap=True)
    for line in why_lines(published, record):
        console.print(Text(f"  {one_line(line)}"), soft_wrap=True)
    return 0


def pasted(words: Sequence[str]) -> str:
    """What was asked: the words, or the content of a file, or of the standard input for ``-``."""
    if list(words) == ["-"]:
        return sys.stdin.read()
    path = Path(words[0])
    if len(words) > 1 or not path.is_file():
        return " ".join(words)
    return path.read_text(encoding="utf-8", errors="replace")


def find_message(query: str, project: Project, console: Console, *, as_json: bool) -> int:
    """Show the messages of the matrix that match a pasted one; returns 1 if there is none."""
    table = newest_table(project)
    said = messages(View(table), sources_of(project, table).values())
    best = said.search.best(query)
    known = [found_message(said.known[number]) for number in best.found or best.guesses]
    if as_json:
        is_known = bool(best.found)
        print_json(
            FoundMessages(
                messages=tuple(known) if is_known else (), guesses=() if is_known else tuple(known)
            )
        )
        return 0 if best.found else 1
    if not best.found:
        console.print(
            "No message of the matrix matches. gradmatrix trace SCRIPT looks at your own script.",
            soft_wrap=True,
        )
        if known:
            console.print("The nearest messages, which are guesses:")
        for each in known:
            console.print(Text(f"  {each.text}"), soft_wrap=True)
        return 1
    for each in known[:MOST_MESSAGES]:
        show_message(each, console)
    if len(known) > MOST_MESSAGES:
        more = counted(len(known) - MOST_MESSAGES, "other message")
        console.print(f"{more} of the matrix share words with it. More words narrow it down.")
    if any(cause.tried for each in known[:MOST_MESSAGES] for cause in each.causes):
        console.print(
            "A remedy counts on the stacks on which what it is for fails. Its code: gradmatrix "
            "capsule SCENARIO/VARIANT --any",
            soft_wrap=True,
        )
    console.print("Which cause is yours? gradmatrix trace SCRIPT looks at your own script.")
    return 0


def show_message(message: FoundMessage, console: Console) -> None:
    """A message with its causes, and the remedies that were tested."""
    trained = f", {message.training} train all the same" if message.training else ""
    console.print(Text(message.text, style="bold"), soft_wrap=True)
    console.print(
        f"  {counted(message.cells, 'cell')} of the matrix: {message.failing} fail{trained}",
        soft_wrap=True,
    )
    for cause in message.causes:
        console.print(
            Text(f"  {cause.cause or 'no failure'}: {counted(cause.cells, 'cell')}, for example "
                 f"{cause.example}"),
            soft_wrap=True,
        )  # fmt: skip
        if cause.situation:
            console.print(Text(f"    {plain(cause.situation)}", style="bold"), soft_wrap=True)
        for line in cause.why:
            console.print(Text(f"    {one_line(line)}"), soft_wrap=True)
        for line in cause.mend.splitlines():
            console.print(Text(f"      {line}", style="cyan"), soft_wrap=True)
        for tried in sorted(cause.tried, key=lambda tried: -tried.trained / tried.judged):
            console.print(
                Text(f"    {tried.mark} {tried.scenario}/{tried.variant}: {tried.summary}; "
                     f"trains on {tried.trained} of {counted(tried.judged, 'stack')}"),
                soft_wrap=True,
            )  # fmt: skip
    console.print()


def why_lines(published: Published, record: Record) -> Iterator[str]:
    """The message, the diagnosis and the remedy of a cell."""
    found = diagnose(record.observation) if record.observation is not None else None
    message = message_of(record)
    if message and (found is None or message not in found.text):
        yield message
    if record.observation is None:
        return
    if record.inputs.get("observer", "")[:16] != observer_digest()[:16]:
        yield (
            "The observer has changed since this record was made. "
            "Run the cell again for an up-to-date diagnosis."
        )
    if found is not None:
        remedy = remedy_on_its_stack(
            found.cause, published.scenarios, published.records, record.cell
        )
        yield from explain(found, remedy)
    for message in false_alarms(record.observation):
        yield f"False alarm (everything that should learn does): {message}"


def message_of(record: Record) -> str:
    """The message of a record, for a reader whose machine may be another one.

    A record of a cell without its device was made on a machine that its message calls "this
    machine". The message cannot be changed: it is part of the published records.
    """
    if record.outcome != NO_DEVICE:
        return record.message
    cell = record.cell
    return (
        f"The cell was not run, because the machine that made this record has no {cell.device} "
        f"device. To run it on a machine that has one: gradmatrix run {cell.stack} "
        f"--cell {cell.scenario}/{cell.variant} --device {cell.device}"
    )


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
    text = capsule.write(record, lock, requirements, scenario, source, file=name)
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
