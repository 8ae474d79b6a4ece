"""``upgrade``: a candidate against what is there, run on both sides, changed cells again, step times side by side."""

from __future__ import annotations

import argparse
import datetime as dt
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from harness import scripts, terminal, upgrade
from harness.commands.compare import STANDARD_OUTPUT, add_reports, refuse, report, targets
from harness.commands.options import add
from harness.commands.own_scripts import own_scripts
from harness.complaints import PYTHON
from harness.errors import UserError, did_you_mean
from harness.moved import packages_moved
from harness.plan import Selection
from harness.publish.comparison.packages import move
from harness.publish.text import one_line, plain
from harness.sides import Reading
from harness.upgrade import Plan, Timing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from harness.model import Scenario
    from harness.project import Project
    from harness.resolution import Resolved

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


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    parser = add(commands, "upgrade", upgrade_command, HELP)
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("baseline", metavar="BASELINE", help="what is there now")
    parser.add_argument(
        "--to", action="append", required=True, metavar="WHAT", help="what would be there (repeatable for packages)"
    )
    resolving = parser.add_argument_group("resolving")
    resolving.add_argument("--as-of", type=day, metavar="DATE", help="the candidate's day (default: today)")
    resolving.add_argument("--python", type=python_version, metavar="3.X", help="for a file that leaves it open")
    resolving.add_argument("--extra", action="append", default=[], metavar="NAME", help="an extra of a pyproject.toml")
    resolving.add_argument("--group", action="append", default=[], metavar="NAME", help="a dependency group of it")
    running = parser.add_argument_group("running")
    running.add_argument("--scenario", action="append", default=[], metavar="NAME", help="only this one (repeatable)")
    running.add_argument(
        "--cell", action="append", default=[], metavar="SCENARIO/VARIANT", help="only this (repeatable)"
    )
    running.add_argument("--device", action="append", default=[], metavar="NAME", help="only this device: cpu or cuda")
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
        "--repeats", type=count, default=2, metavar="N", help="further runs of a changed cell per side (default: 2)"
    )
    running.add_argument("--fresh", action="store_true", help="run every cell, recorded or not")
    running.add_argument("--keep", action="store_true", help="keep the environments that are made for it")
    measuring = parser.add_argument_group("measuring")
    measuring.add_argument(
        "--timing",
        choices=("control", "all", "none"),
        default="control",
        help="what is measured of all that trains on both sides: the first control of each scenario and your own "
        "scripts (default), everything, or nothing",
    )
    measuring.add_argument("--no-timing", dest="timing", action="store_const", const="none", help="the last of these")
    measuring.add_argument(
        "--time", action="append", default=[], metavar="SCENARIO/VARIANT", help="measure this instead (repeatable)"
    )
    measuring.add_argument(
        "--budget", type=seconds, default=300.0, metavar="TIME", help="of all measuring: 120s, 5m (default: 300s)"
    )
    measuring.add_argument(
        "--margin", type=share, default=0.01, metavar="N%", help="what counts as the same (default: 1%%; memory: 5%%)"
    )
    add_reports(parser)


def upgrade_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``upgrade``: 0 safe, 1 regressions, 3 inconclusive."""
    refuse(options)
    plan = planned(options, project)
    reading = Reading(options.python, tuple(options.extra), tuple(options.group))
    with terminal.Display(console) as display:
        display.stage(plain(options.baseline), "resolving")
        baseline, candidate = upgrade.resolved_sides(
            project, options.baseline, options.to, reading, as_of=options.as_of
        )
    if not quiet(options):
        for line in what_moves(baseline, candidate):
            console.print(Text(plain(line)), soft_wrap=True)
    with terminal.Display(console) as display:
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
        names = (selection.scenarios or {name for name, _ in selection.variants or ()}) | {each.name for each in own}
        pairs = selection.variants and selection.variants | {(each.name, scripts.VARIANT) for each in own}
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
        f"{each.name}/{variant.name}": (each.name, variant.name) for each in scenarios for variant in each.variants
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
    yield f"{baseline.given.name} → {candidate.given.name}"
    for side in (baseline, candidate):
        yield from (f"  note: {one_line(notice)}" for notice in side.given.notices)
    moves = packages_moved(baseline.lock, candidate.lock)
    if not moves:
        yield "Nothing moves: both sides have the same packages."
        return
    direct = [each for each in moves if each.direct]
    others = [each for each in moves if not each.direct]
    yield f"{len(moves)} packages differ, {len(direct)} of them asked for by name:"
    width = max(len(each.name) for each in moves)
    yield from (f"  {each.name:{width}}  {move(each)}" for each in direct)
    yield from (f"  {each.name:{width}}  {move(each)}  (came with others)" for each in others[:MOST_MOVES])
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
