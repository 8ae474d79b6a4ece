"""``compare``: two runs that exist, cell by cell; and the reports of a comparison, whoever made it.

Scripts that are named on the command line, as scenarios.

``upgrade``: a candidate against what is there, run on both sides, changed cells again, step times side by side.
"""

from __future__ import annotations

import argparse
import datetime as dt
import glob
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gradmatrix.cli import show
from gradmatrix.cli.options import add
from gradmatrix.cli.show import show_comparison
from gradmatrix.compare import upgrade
from gradmatrix.compare.comparison import Results, compare_stacks
from gradmatrix.compare.recorded import FORMS, paired, read
from gradmatrix.compare.sides import Reading, path_of
from gradmatrix.compare.upgrade import Plan, Timing
from gradmatrix.core import files as disk
from gradmatrix.core.errors import PYTHON, UserError, did_you_mean
from gradmatrix.core.text import one_line, plain
from gradmatrix.judge.versions import packages_moved
from gradmatrix.publish.comparison import move
from gradmatrix.publish.reports import Form, as_schema, reports
from gradmatrix.run import scenarios as scripts
from gradmatrix.run.plan import Selection
from gradmatrix.run.project import expect
from gradmatrix.stacks.config import Script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradmatrix.compare.comparison import Comparison
    from gradmatrix.compare.resolution import Resolved
    from gradmatrix.core.model import Scenario
    from gradmatrix.run.project import Project


STANDARD_OUTPUT = "-"
SAME = "Both sides are the very same records: a run is compared with itself."
EXIT = "0 safe, 1 something regressed, 3 open: cells are inconclusive, or were not run"


def register_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    parser = add(
        commands, "compare", compare_command, f"compare two runs that exist, cell by cell: {EXIT}"
    )
    parser.add_argument("baseline", metavar="RUN", help=f"the baseline: {FORMS}")
    parser.add_argument("candidate", metavar="RUN", help="the candidate: in the same words")
    parser.add_argument(
        "--stacks",
        nargs=2,
        metavar=("A", "B"),
        help="the stack of each run to compare, where they have several",
    )
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="NAME",
        help="only this scenario; repeatable",
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
    parser.add_argument(
        "--json-schema", metavar="FILE", help="write the JSON Schema of --json there"
    )


def compare_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``compare``: from the records alone, nothing is run and nothing is written into the runs."""
    refuse(options)
    baseline, candidate = read(options.baseline, project), read(options.candidate, project)
    pairs, notes = paired(baseline, candidate, tuple(options.stacks) if options.stacks else None)
    if options.scenario:
        names = chosen(options.scenario, pairs)
        pairs = [(of_scenarios(one, names), of_scenarios(other, names)) for one, other in pairs]
    scenarios = {
        each.name: each
        for each in (*project.chosen_scenarios(), *project.known_scenarios().values())
    }
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
        show_comparison(
            console, comparison
        )  # first: a disk that is full now does not take the answer away
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
                f"{target} cannot be written.",
                cause=cause,
                next_step="name a file in a folder that can be written to",
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
        with NamedTemporaryFile(
            dir=path.absolute().parent, prefix=f"{path.name}.", suffix=".partial"
        ):
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


def chosen(asked: Sequence[str], pairs: Sequence[tuple[Results, Results]]) -> set[str]:
    """The scenarios that were asked for; UserError with a suggestion for one that no run has."""
    known = {key.scenario for pair in pairs for side in pair for key in side.records}
    for name in asked:
        expect(name, "recorded scenario", sorted(known))
    return set(asked)


def of_scenarios(side: Results, names: set[str]) -> Results:
    """A side with the cells of these scenarios alone."""
    return replace(
        side, records={key: record for key, record in side.records.items() if key.scenario in names}
    )


def warn(problem: str) -> None:
    """Say what could not be read, beside what is printed."""
    Console(stderr=True, highlight=False).print(
        Text(f"warning: {plain(problem)}", style="yellow"), soft_wrap=True
    )


def own_scripts(
    given: Sequence[str], directory: Path | None, project: Project
) -> tuple[Scenario, ...]:
    """The scripts of the command line as scenarios, named after their files; UserError where one is none.

    What they may import from beside them is part of what they are: the modules in their folder.
    """
    if directory is not None and not (given and directory.is_dir()):
        raise UserError(
            f"--directory {directory} cannot be used.",
            cause="there is no such folder"
            if given
            else "it is where scripts run, and no --script is given",
            next_step="name a folder, and a script with --script 'train.py --epochs 1'",
        )
    tables: list[Script] = []
    for text in given:
        words = split(text)
        path = path_of(words[0]) if words else Path()
        if not path.is_file():
            raise UserError(
                f"--script {text!r} names no file.",
                cause=f"there is no file {str(path)!r}",
                next_step="write the file and its arguments in one: --script 'train.py --epochs 1'",
            )
        name = re.sub(r"[^A-Za-z0-9]+", "-", path.stem).strip("-") or "script"
        taken = {each.name for each in tables} | set(project.known_scenarios())
        name = next(
            each
            for each in (name, *(f"{name}-{number}" for number in range(2, 1000)))
            if each not in taken
        )
        path = path.absolute()
        tables.append(
            Script(
                name=name,
                path=str(path),
                arguments=tuple(words[1:]),
                inputs=tuple(
                    glob.escape(str(each))
                    for each in sorted(path.parent.glob("*.py"))
                    if each.is_file()
                ),
                directory=None if directory is None else str(directory.absolute()),
            )
        )
    return scripts.load_scripts(project.matrix_file, tables, project.known_scenarios())


def split(text: str) -> list[str]:
    """A script and its arguments as a shell reads them; UserError where a quotation does not end."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(
            f"--script {text!r} cannot be read.",
            cause=str(error),
            next_step="write the file and its arguments in one: --script 'train.py --epochs 1'",
        ) from error


HELP = "run a candidate and a baseline side by side: what regresses, what is fixed, what gets slower or hungrier"
DESCRIPTION = """
May I upgrade? The baseline and a candidate are resolved, installed and run; cells that changed are run again on both
sides alike, in fresh processes, before they are called a change; what trains on both is measured side by side.
Nothing is recorded in results/ or in the matrix's journal.
"""
EPILOG = """
baseline:
  a stack of matrix.toml, a lock (ours, uv.lock, pylock.toml, a compiled requirements file), a requirements file, a
  pyproject.toml, or an environment (its folder, or its python), which is run in place and left as it is

--to:
  transformers==5.23.0, "trl<1"   that package; the others stay where they can, and what must move moves
  trl                             that package at any version: with another --to that needs it to move
  latest                          all that the baseline asks for by name, at today's newest (a baseline that asks for
                                  what the matrix's stack "latest" asks for gets that stack)
  a stack, a lock, a file, an environment      another side altogether
  ./a.whl, git+https://…, "name @ git+https://…"      a wheel file or a source

exit code:
  0  nothing regressed, nothing got slower or hungrier; where the budget was spent before a ratio was clear, it is told
     as open, and more budget answers it
  1  something did
  2  it could not be done: nothing resolves, a file cannot be read, …
  3  inconclusive: repeats disagree, the machine failed, or too little ran on both sides

examples:
  gradmatrix upgrade trl-0.15 --to latest
  gradmatrix upgrade requirements.txt --to transformers==5.23.0 --to trl --markdown comment.md
  gradmatrix upgrade .venv --to "peft<1" --script "train.py --epochs 1" --budget 2m
"""
DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|min|h)?")
SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}
MOST_MOVES = 12
"""Packages that came with others and moved: how many are listed before the run, where the report lists all."""


def register_upgrade(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    parser = add(commands, "upgrade", upgrade_command, HELP)
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("baseline", metavar="BASELINE", help="what is there now")
    parser.add_argument(
        "--to",
        action="append",
        required=True,
        metavar="WHAT",
        help="what would be there (repeatable for packages)",
    )
    resolving = parser.add_argument_group("resolving")
    resolving.add_argument(
        "--as-of", type=day, metavar="DATE", help="the candidate's day (default: today)"
    )
    resolving.add_argument(
        "--python", type=python_version, metavar="3.X", help="for a file that leaves it open"
    )
    resolving.add_argument(
        "--extra", action="append", default=[], metavar="NAME", help="an extra of a pyproject.toml"
    )
    resolving.add_argument(
        "--group", action="append", default=[], metavar="NAME", help="a dependency group of it"
    )
    running = parser.add_argument_group("running")
    running.add_argument(
        "--scenario", action="append", default=[], metavar="NAME", help="only this one (repeatable)"
    )
    running.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="SCENARIO/VARIANT",
        help="only this (repeatable)",
    )
    running.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="only this device: cpu or cuda",
    )
    running.add_argument(
        "--script",
        action="append",
        default=[],
        metavar="'FILE ARGS'",
        help="a training script of your own with its arguments, in the place of the scenarios (repeatable; "
        "with --scenario both)",
    )
    running.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="where these scripts run, and write what they write (default: an empty folder of each run's own)",
    )
    running.add_argument(
        "--repeats",
        type=count,
        default=2,
        metavar="N",
        help="further runs of a changed cell per side (default: 2)",
    )
    running.add_argument("--fresh", action="store_true", help="run every cell, recorded or not")
    running.add_argument(
        "--keep", action="store_true", help="keep the environments that are made for it"
    )
    measuring = parser.add_argument_group("measuring")
    measuring.add_argument(
        "--timing",
        choices=("control", "all", "none"),
        default="control",
        help="what is measured of all that trains on both sides: the first control of each scenario and your own "
        "scripts (default), everything, or nothing",
    )
    measuring.add_argument(
        "--no-timing", dest="timing", action="store_const", const="none", help="the last of these"
    )
    measuring.add_argument(
        "--time",
        action="append",
        default=[],
        metavar="SCENARIO/VARIANT",
        help="measure this instead (repeatable)",
    )
    measuring.add_argument(
        "--budget",
        type=seconds,
        default=300.0,
        metavar="TIME",
        help="of all measuring: 120s, 5m (default: 300s)",
    )
    measuring.add_argument(
        "--margin",
        type=share,
        default=0.01,
        metavar="N%",
        help="what counts as the same (default: 1%%; memory: 5%%)",
    )
    add_reports(parser)


def upgrade_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``upgrade``: 0 safe, 1 regressions, 3 inconclusive."""
    refuse(options)
    plan = planned(options, project)
    reading = Reading(options.python, tuple(options.extra), tuple(options.group))
    with show.Display(console) as display:
        display.stage(plain(options.baseline), "resolving")
        baseline, candidate = upgrade.resolved_sides(
            project, options.baseline, options.to, reading, as_of=options.as_of
        )
    if not quiet(options):
        for line in what_moves(baseline, candidate):
            console.print(Text(plain(line)), soft_wrap=True)
    with show.Display(console) as display:
        comparison = upgrade.upgrade(project, baseline, candidate, plan, display)
    own = [each.name for each in plan.scenarios if each.arguments is not None]
    parts = [*options.scenario, *options.cell, *options.device, *own]
    path = upgrade.keep_report(project, baseline, candidate, comparison, parts)
    try:
        report(options, comparison, console)
    except OSError as error:
        raise UserError(
            f"{comparison.headline} But a report cannot be written: {error}.",
            cause="the place cannot be written, or the disk is full",
            next_step=f"the whole comparison is kept in {path}; the same command with another place runs no cell again",
        ) from error
    if not quiet(options):
        console.print(Text(f"kept: {path}"), style="dim", soft_wrap=True)
    return comparison.exit_code


def quiet(options: argparse.Namespace) -> bool:
    """Whether a report has the standard output to itself."""
    return STANDARD_OUTPUT in {*targets(options).values(), options.json_schema}


def planned(options: argparse.Namespace, project: Project) -> Plan:
    """What is run, of the options; UserError where they do not fit together."""
    own = own_scripts(options.script, options.directory, project)
    chosen = project.chosen_scenarios()
    selection = project.selection(
        scenario=options.scenario, cell=options.cell, device=options.device, fresh=options.fresh
    )
    if own and not (options.scenario or options.cell):
        chosen = ()
    elif own:
        names = (selection.scenarios or {name for name, _ in selection.variants or ()}) | {
            each.name for each in own
        }
        pairs = selection.variants and selection.variants | {
            (each.name, scripts.VARIANT) for each in own
        }
        selection = Selection(frozenset(names), pairs, selection.devices, fresh=selection.fresh)
    scenarios = (*chosen, *own)
    return Plan(
        scenarios=scenarios,
        selection=selection,
        repeats=options.repeats,
        timing=timing(options, scenarios),
        keep=options.keep,
    )


def timing(options: argparse.Namespace, scenarios: Sequence[Scenario]) -> Timing | None:
    """What is measured, of the options; None for nothing."""
    known = {
        f"{each.name}/{variant.name}": (each.name, variant.name)
        for each in scenarios
        for variant in each.variants
    }
    for word in options.time:
        if word not in known:
            raise UserError(
                f"--time {word}: there is no such cell in this run.",
                cause=did_you_mean(word, known),
                next_step="write SCENARIO/VARIANT as nox -s harness -- list shows it, or SCRIPT/script",
            )
    if options.timing == "none" and not options.time:
        return None
    return Timing(
        budget_s=options.budget,
        margin=options.margin,
        everything=options.timing == "all",
        cells=frozenset(known[word] for word in options.time),
    )


def what_moves(baseline: Resolved, candidate: Resolved) -> Iterator[str]:
    """The two sides and what differs between their locks: the first thing that one wants to see."""
    yield f"{baseline.side.name} → {candidate.side.name}"
    for each in (baseline, candidate):
        yield from (f"  note: {one_line(notice)}" for notice in each.side.notices)
    moves = packages_moved(baseline.lock, candidate.lock)
    if not moves:
        yield "Nothing moves: both sides have the same packages."
        return
    direct = [each for each in moves if each.direct]
    others = [each for each in moves if not each.direct]
    yield f"{len(moves)} packages differ, {len(direct)} of them asked for by name:"
    width = max(len(each.name) for each in moves)
    yield from (f"  {each.name:{width}}  {move(each)}" for each in direct)
    yield from (
        f"  {each.name:{width}}  {move(each)}  (came with others)" for each in others[:MOST_MOVES]
    )
    if others[MOST_MOVES:]:
        yield f"  and {len(others) - MOST_MOVES} more that came with others"


def day(text: str) -> dt.date:
    """A date that is not in the future."""
    try:
        found = dt.date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no date such as 2026-03-31") from error
    if found > dt.datetime.now(dt.UTC).date():
        raise argparse.ArgumentTypeError(f"{text} lies in the future")
    return found


def python_version(text: str) -> str:
    """A minor version of Python."""
    if not PYTHON.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no version of Python such as 3.11")
    return text


def count(text: str) -> int:
    """A number of runs."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs such as 2")
    return int(text)


def seconds(text: str) -> float:
    """A time as 120, 120s or 5m, in seconds."""
    found = DURATION.fullmatch(text.strip())
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 120s or 5m")
    return float(found[1]) * SECONDS[found[2]]


def share(text: str) -> float:
    """A share as 1% or 0.01."""
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 < found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share such as 1%")
    return found
