"""``compare``: two runs that exist, cell by cell; and the reports of a comparison, whoever made it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from harness import disk
from harness.commands.options import add
from harness.compare import Side, compare_stacks
from harness.errors import UserError
from harness.project import expect
from harness.publish.comparison.reports import Form, as_schema, reports
from harness.publish.text import plain
from harness.recorded import FORMS, paired, read
from harness.terminal_comparison import show_comparison

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from harness.comparison import Comparison
    from harness.project import Project

STANDARD_OUTPUT = "-"
SAME = "Both sides are the very same records: a run is compared with itself."
EXIT = "0 safe, 1 something regressed, 3 open: cells are inconclusive, or were not run"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    parser = add(commands, "compare", compare_command, f"compare two runs that exist, cell by cell: {EXIT}")
    parser.add_argument("baseline", metavar="RUN", help=f"the baseline: {FORMS}")
    parser.add_argument("candidate", metavar="RUN", help="the candidate: in the same words")
    parser.add_argument(
        "--stacks", nargs=2, metavar=("A", "B"), help="the stack of each run to compare, where they have several"
    )
    parser.add_argument(
        "--scenario", action="append", default=[], metavar="NAME", help="only this scenario; repeatable"
    )
    add_reports(parser)


def add_reports(parser: argparse.ArgumentParser) -> None:
    """The options of every command that ends with a comparison."""
    texts = {
        Form.MARKDOWN: "write a report for a comment on a pull request there; - is the standard output",
        Form.HTML: "write a report as one page in one file there",
        Form.JSON: "write the comparison as data there",
    }
    for form, text in texts.items():
        parser.add_argument(f"--{form.value}", metavar="FILE", help=text)
    parser.add_argument("--json-schema", metavar="FILE", help="write the JSON Schema of --json there")


def compare_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``compare``: from the records alone, nothing is run and nothing is written into the runs."""
    refuse(options)
    baseline, candidate = read(options.baseline, project), read(options.candidate, project)
    pairs, notes = paired(baseline, candidate, tuple(options.stacks) if options.stacks else None)
    if options.scenario:
        names = chosen(options.scenario, pairs)
        pairs = [(of_scenarios(one, names), of_scenarios(other, names)) for one, other in pairs]
    scenarios = {each.name: each for each in (*project.chosen_scenarios(), *project.known_scenarios().values())}
    if all(one.records == other.records for one, other in pairs):
        notes = (*notes, SAME)
    comparison = compare_stacks((baseline.name, candidate.name), pairs, scenarios, notes=notes)
    report(options, comparison, console)
    for problem in dict.fromkeys([*baseline.problems, *candidate.problems]):
        warn(problem)
    return comparison.exit_code


def report(options: argparse.Namespace, comparison: Comparison, console: Console) -> None:
    """Print a comparison, and write what ``add_reports`` was asked for; what goes to the standard output is alone."""
    asked = targets(options)
    written = list(reports(comparison, asked))
    alone = STANDARD_OUTPUT in {*asked.values(), options.json_schema}
    if not alone:
        show_comparison(console, comparison)  # first: a disk that is full now does not take the answer away
    for each in written:
        write(each.target, each.content)
    if options.json_schema is not None:
        write(options.json_schema, as_schema())
    if alone:
        return
    for form, target in asked.items():
        console.print(Text(f"{form.value}: {target}"), style="dim", soft_wrap=True)


def targets(options: argparse.Namespace) -> dict[Form, str]:
    """The forms that were asked for."""
    return {form: target for form in Form if (target := getattr(options, form.value)) is not None}


def refuse(options: argparse.Namespace) -> None:
    """UserError where a report cannot be written, before anything is done for it."""
    files = [*targets(options).values(), *([options.json_schema] if options.json_schema else [])]
    if files.count(STANDARD_OUTPUT) > 1:
        raise UserError(
            "Two reports cannot both go to the standard output.",
            cause="one could not be told from the other",
            next_step="write one of them into a file",
        )
    for target in files:
        cause = obstacle(Path(target)) if target != STANDARD_OUTPUT else ""
        if cause:
            raise UserError(
                f"{target} cannot be written.", cause=cause, next_step="name a file in a folder that can be written to"
            )


def obstacle(path: Path) -> str:
    """Why a file cannot be put at ``path``, found out by putting one beside it for a moment; empty where it can."""
    try:
        if path.is_dir():
            return "it is a folder"
        if path.exists() and not path.is_file():
            return "it is no ordinary file"
        if not path.absolute().parent.is_dir():
            return "its folder is not there"
        with NamedTemporaryFile(dir=path.absolute().parent, prefix=f"{path.name}.", suffix=".partial"):
            return ""
    except OSError as error:
        return (error.strerror or str(error)).lower()


def write(target: str, content: bytes) -> None:
    """Into a file in one step, or to the standard output."""
    if target == STANDARD_OUTPUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)  # UTF-8, whatever the terminal has
        sys.stdout.buffer.flush()
    else:
        disk.write_atomically(Path(target), content)


def chosen(asked: Sequence[str], pairs: Sequence[tuple[Side, Side]]) -> set[str]:
    """The scenarios that were asked for; UserError with a suggestion for one that no run has."""
    known = {key.scenario for pair in pairs for side in pair for key in side.records}
    for name in asked:
        expect(name, "recorded scenario", sorted(known))
    return set(asked)


def of_scenarios(side: Side, names: set[str]) -> Side:
    """A side with the cells of these scenarios alone."""
    return replace(side, records={key: record for key, record in side.records.items() if key.scenario in names})


def warn(problem: str) -> None:
    """Say what could not be read, beside what is printed."""
    Console(stderr=True, highlight=False).print(Text(f"warning: {plain(problem)}", style="yellow"), soft_wrap=True)
