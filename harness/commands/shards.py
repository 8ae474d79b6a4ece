"""``shards``, ``shard``, ``merge``, ``dry-run``: the matrix as jobs of other machines, and their records as one."""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.text import Text

from harness import disk, nightly, publication, terminal
from harness.commands.options import add, warn_and_code
from harness.errors import UserError
from harness.project import Project, expect
from harness.publish.text import plain
from harness.shards import MOST_JOBS, SETTING_UP_S, github_matrix, stacks_of

if TYPE_CHECKING:
    from harness.model import Stack


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add these commands to the command line."""
    text = "plan jobs for the cells that must run, print them as a GitHub Actions matrix; nothing is run"
    shards = add(commands, "shards", shards_command, text)
    _add_sessions(shards)
    shards.add_argument(
        "--since-published",
        action="store_true",
        help="a cell counts as known where its published record has the same key, not only where it was run here",
    )
    shards.add_argument("--output", type=Path, metavar="FILE", help="write the shards here, for the command shard")
    shards.add_argument(
        "--settled", type=Path, metavar="DIR", help="record here what is known without running, for the command merge"
    )

    shard = add(commands, "shard", shard_command, "run the cells of one shard; its records go to --results")
    shard.add_argument("file", type=Path, metavar="FILE", help="what shards --output wrote")
    shard.add_argument("name", metavar="NAME", help="the shard")
    shard.add_argument("--explain", action="store_true", help="say of every cell why it is run or not")
    shard.add_argument("-v", "--verbose", action="store_true", help="show what the scenarios print")

    merge = add(commands, "merge", merge_command, "take the records of shards, and write the matrix from all of them")
    merge.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="results of shards, or a folder of them")
    merge.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="what shards --output wrote: take only its cells, those of shard NAME from a folder NAME or records-NAME,"
        " and from any other folder only what is known without running",
    )

    text = "run stacks plainly, and again as plan, shards and merge, in folders of their own; is the matrix the same?"
    rehearsal = add(commands, "dry-run", dry_run_command, text)
    _add_sessions(rehearsal)
    rehearsal.add_argument("stacks", nargs="+", metavar="STACK", help="stacks of the sessions")


def _add_sessions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSIONS", help="a file of what nox -t all --list --json prints, or -")
    parser.add_argument(
        "--jobs", type=_jobs, default=MOST_JOBS, metavar="N", help=f"at most so many jobs (default: {MOST_JOBS})"
    )
    parser.add_argument(
        "--setting-up",
        type=_seconds,
        default=SETTING_UP_S,
        metavar="SECONDS",
        help="what a job costs before its first cell; shorter jobs are not split (default: %(default)g)",
    )


def shards_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``shards``: the matrix on stdout, all else on stderr."""
    notes = Console(stderr=True, highlight=False)
    with terminal.Display(notes) as display:
        stacks = _stacks(options, project)
        cells, missing = nightly.planned(project, stacks, display, since_published=options.since_published)
        plan = nightly.shards(project, cells, options.jobs, options.setting_up)
        if options.settled:
            apart = Project.at(project.root, matrix_file=project.matrix_file, results=options.settled)
            nightly.settle(apart, cells, display)
    if options.output:
        disk.write_atomically(options.output, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")
    for shard in plan.shards:
        notes.print(Text(f"{shard.name}: {len(shard.cells)} cells, {shard.expected_s:.0f} s"), soft_wrap=True)
    for error in missing:  # the other stacks' night goes on; GitHub shows such a line above the run
        mark = "::warning::" if os.environ.get("GITHUB_ACTIONS") else "warning: "
        notes.print(Text(f"{mark}left out: {plain(error.what)} {plain(error.cause)}", style="yellow"), soft_wrap=True)
    total = sum(len(shard.cells) for shard in plan.shards)
    kept = len(cells) - total - plan.settled
    notes.print(f"{len(plan.shards)} jobs for {total} cells; {kept} are recorded, {plan.settled} need no run")
    console.out(msgspec.json.encode(github_matrix(plan.shards)).decode(), highlight=False)
    return warn_and_code(project, notes, failed=False)


def shard_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``shard``: failing cells are results; 0 when all have one."""
    shard = nightly.read(options.file).named(options.name)
    with terminal.Display(console, verbose=options.verbose, explain=options.explain) as display:
        summary = nightly.run_shard(project, shard, display)
    terminal.show_summary(console, summary)
    return warn_and_code(project, console, failed=False)


def merge_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``merge``: what was taken, and what was not."""
    plan = nightly.read(options.plan) if options.plan else None
    with terminal.Display(console) as display:
        found, new = nightly.merged(project, options.folders, display, plan)
    for problem in found.problems:
        console.print(Text(f"warning: {plain(problem)}", style="yellow"), soft_wrap=True)
    console.print(f"{len(found.records)} cells found, {new} records were new")
    publication.publish(project)
    return warn_and_code(project, console, failed=False)


def dry_run_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``dry-run``: 1 where the two published matrices differ."""
    known = {stack.name: stack for stack in _stacks(options, project)}
    for name in options.stacks:
        expect(name, "session of a stack", set(known))
    stacks = [known[name] for name in options.stacks]
    with tempfile.TemporaryDirectory(prefix="gradmatrix-") as folder, terminal.Display(console) as display:
        apart = replace(project, results=options.results or Path(folder))
        rehearsed = nightly.rehearse(apart, stacks, display, jobs=options.jobs, setting_up_s=options.setting_up)
    for shard in rehearsed.shards:
        console.print(Text(f"{shard.name}: {len(shard.cells)} cells"), soft_wrap=True)
    for difference in rehearsed.differences:
        console.print(Text(plain(difference), style="red"), soft_wrap=True)
    many = len(rehearsed.differences)
    cells, ran, shards = rehearsed.cells, rehearsed.ran, len(rehearsed.shards)
    console.print(f"{cells} cells published twice, of which {ran} ran plainly and in {shards} shards: {many} differ")
    return 1 if many else 0


def _stacks(options: argparse.Namespace, project: Project) -> list[Stack]:
    """The stacks of nox's sessions."""
    try:
        sessions = sys.stdin.buffer.read() if options.sessions == "-" else Path(options.sessions).read_bytes()
    except OSError as error:
        raise UserError(
            f"The sessions cannot be read: {error}.",
            next_step="nox -t all --list --json > sessions.json",
        ) from error
    return [project.matrix.stack(name) for name in stacks_of(sessions)]


def _jobs(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_JOBS:
        raise argparse.ArgumentTypeError(f"{number} is not between 1 and {MOST_JOBS}")
    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return seconds
