"""``run``, ``lock``, ``table``, ``publish``, ``isolation``, ``list``: the matrix.

``refresh``: what the package index has that the matrix has not.

``shards``, ``shard``, ``merge``, ``dry-run``: the matrix as jobs of other machines, and their records as one.
"""

from __future__ import annotations

import argparse
import datetime as dt
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

from gradmatrix.cli import show
from gradmatrix.cli.options import add, again, chosen, refuse_both, warn_and_code
from gradmatrix.core import files
from gradmatrix.core.errors import UserError
from gradmatrix.core.text import plain
from gradmatrix.night import night
from gradmatrix.night.night import MOST_JOBS, SETTING_UP_S, github_matrix, stacks_of
from gradmatrix.publish import publication
from gradmatrix.run import refresh as refreshing
from gradmatrix.run.project import NoSuchRelease, Project, by_date, expect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradmatrix.core.model import Stack
    from gradmatrix.run.refresh import News


REPEAT = 'nox -s "matrix({stack})" -- --cell {scenario}/{variant} --fresh'
LOCK = "resolve stacks again, as of their dates, into results/locks/; 3 where one does not resolve"
UNRESOLVED = 3
"""The exit code where a stack does not resolve: what was to be told, and no error of ours."""


def register_matrix(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add these commands to the command line."""
    run = add(
        commands,
        "run",
        run_command,
        "install stacks, run scenarios in them, write and print the matrix",
    )
    run.add_argument(
        "stacks", nargs="*", metavar="STACK", help="stacks of matrix.toml (default: the core ones)"
    )
    run.add_argument("--all", action="store_true", help="every stack of matrix.toml")
    run.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="NAME",
        help="only this scenario (repeatable)",
    )
    run.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="SCENARIO/VARIANT",
        help="only this cell (repeatable)",
    )
    run.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="only this device: cpu or cuda",
    )
    run.add_argument(
        "--fresh", action="store_true", help="run the cells even where their outcome is recorded"
    )
    run.add_argument(
        "--explain", action="store_true", help="say of every cell why it is run or not"
    )
    run.add_argument(
        "--strict", action="store_true", help="exit with 1 where a judged cell does not pass"
    )
    run.add_argument(
        "--drop-environments", action="store_true", help="delete an environment after its cells ran"
    )
    run.add_argument(
        "--no-table", action="store_true", help="write the matrix, but do not print it"
    )
    run.add_argument("-v", "--verbose", action="store_true", help="show what the scenarios print")

    lock = add(commands, "lock", lock_command, LOCK)
    lock.add_argument(
        "stacks",
        nargs="*",
        metavar="STACK",
        help="default: those without a current lock, and as_of today",
    )
    lock.add_argument("--all", action="store_true", help="every stack of matrix.toml")

    table = add(
        commands,
        "table",
        table_command,
        "print the matrix from the records, and write it to results/",
    )
    table.add_argument("stacks", nargs="*", metavar="STACK", help="only these columns")

    pages = add(
        commands,
        "publish",
        publish_command,
        "write the matrix to results/ with its pages: results/index.html",
    )
    pages.add_argument(
        "--base-url",
        default=None,
        metavar="URL",
        help="where results/ is served: for the addresses in feed.xml",
    )

    same = add(
        commands,
        "isolation",
        isolation_command,
        "repeat cells in fresh processes: do forks give the same verdict?",
    )
    same.add_argument("stacks", nargs="+", metavar="STACK")
    same.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="NAME",
        help="only this scenario (repeatable)",
    )
    same.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="SCENARIO/VARIANT",
        help="only this cell (repeatable)",
    )
    same.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="only this device: cpu or cuda",
    )

    add(commands, "list", list_command, "the stacks, scenarios and variants")


def run_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``run``: the main job."""
    stacks = chosen(project, options.stacks, everything=options.all)
    selection = project.selection(
        scenario=options.scenario, cell=options.cell, device=options.device, fresh=options.fresh
    )
    for stack in stacks:
        project.store.refuse_other_schema(stack.name)  # before hours of work, not after
    missing: dict[str, NoSuchRelease] = {}
    try:
        with show.Display(console, verbose=options.verbose, explain=options.explain) as display:
            for stack in stacks:
                display.stage(stack.name, "locking")
                try:
                    run = project.stack_run(stack, display)
                except NoSuchRelease as error:
                    missing[stack.name] = error
                    continue
                show.show_summary(console, run.execute(selection))
                show.show_fallen_behind(console, project.fallen_behind(run.lock))
                if options.drop_environments:
                    project.drop_environment(stack)
    finally:  # also where a later stack could not be installed
        publication.publish(project)
    names = [stack.name for stack in stacks if stack.name not in missing]
    records = project.records_of(names)
    asked = {cell: r for cell, r in records.items() if selection.has(cell)}
    if not options.no_table:
        show.show_matrix(console, project.published(records.values()), names)
        show.show_failures(console, asked, REPEAT)
    code = warn_and_code(
        project, console, failed=options.strict and any(r.passed is False for r in asked.values())
    )
    return unresolved(missing, stacks) or code


def lock_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``lock``: resolve anew; a stack that cannot be resolved is reported and makes the exit code 3."""
    failures = 0
    missing: dict[str, NoSuchRelease] = {}
    refuse_both(options.stacks, everything=options.all)
    stacks = project.stacks_to_lock(options.stacks, everything=options.all)
    for stack in stacks:
        try:
            lock = project.relock(stack)
        except NoSuchRelease as error:
            missing[stack.name] = error
            continue
        failures += lock.failure is not None
        what = f"{len(lock.packages)} packages" if lock.failure is None else lock.failure.outcome
        console.print(Text(f"{stack.name}: {what}, as of {lock.as_of}"), soft_wrap=True)
        show.show_fallen_behind(console, project.fallen_behind(lock))
        if lock.failure is not None:
            console.print(Text(plain(lock.failure.message)), soft_wrap=True)
    return unresolved(missing, stacks) or (UNRESOLVED if failures else 0)


def unresolved(missing: dict[str, NoSuchRelease], stacks: Sequence[Stack]) -> int:
    """Tell what is ``missing`` when the other stacks are done; the exit code. NoSuchRelease where there is no other."""
    for error in missing.values():
        if len(stacks) == 1:
            raise error
        Console(stderr=True, highlight=False).print(
            Text(f"gradmatrix: {plain(str(error))}"), soft_wrap=True
        )
    return UNRESOLVED if missing else 0


def table_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``table``: print and write what is recorded."""
    for name in options.stacks:
        project.matrix.stack(name)
    publication.publish(project)
    names = options.stacks or [lock.stack for lock in by_date(project.known_locks())]
    records = project.records_of(names)
    recorded = {cell.stack for cell in records}
    show.show_matrix(
        console, project.published(records.values()), [name for name in names if name in recorded]
    )
    show.show_failures(console, records, REPEAT)
    return warn_and_code(project, console, failed=False)


def publish_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``publish``: the data files and the pages."""
    written = publication.publish(project, site=True, base_url=options.base_url)
    console.print(
        Text(f"{'published' if written else 'up to date'}: {project.results / 'index.html'}"),
        soft_wrap=True,
    )
    return warn_and_code(project, console, failed=False)


def isolation_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``isolation``: 1 where a fork and a fresh process disagree on a verdict."""
    selection = project.selection(
        scenario=options.scenario, cell=options.cell, device=options.device, fresh=True
    )
    different = 0
    for stack in chosen(project, options.stacks, everything=False):
        with show.Display(console) as display:
            pairs = project.compare_isolation(stack, selection, display)
        for forked, fresh in pairs:
            if (forked.outcome, forked.gradient, forked.passed) != (
                fresh.outcome,
                fresh.gradient,
                fresh.passed,
            ):
                different += 1
                console.print(
                    Text(f"{forked.cell}: fork {forked.outcome}, fresh process {fresh.outcome}")
                )
        console.print(Text(f"{stack.name}: {len(pairs)} cells compared"))
    console.print(f"{different} verdicts differ between a fork and a fresh process")
    return 1 if different else 0


def list_command(_options: argparse.Namespace, project: Project, console: Console) -> int:
    """``list``: what there is."""
    for stack in project.matrix.stacks:
        console.print(
            Text(
                f"{stack.name:22} as of {stack.as_of}{'  core' if stack.core else ''}  {stack.summary}"
            ),
            soft_wrap=True,
        )
    show.show_plan(console, {s.name: s for s in project.chosen_scenarios()})
    return 0


HELP = "say what the package index has that the matrix has not, and write the stacks that [generate.*] tables give"


def register_refresh(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    refresh = add(commands, "refresh", refresh_command, HELP)
    refresh.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 where there is something new",
    )
    refresh.add_argument("--json", action="store_true", help="as data")


def refresh_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``refresh``: with --check 1 where there is something new."""
    news = refreshing.refresh(project, dt.datetime.now(dt.UTC).date(), write=not options.check)
    if options.json:
        console.print(Text(refreshing.as_json(news).decode()), soft_wrap=True)
    else:
        for line in lines(news, again(options), wrote=not options.check):
            console.print(Text(plain(line)), soft_wrap=True)
    return 1 if options.check and news.anything else 0


def lines(news: News, same: str = "", *, wrote: bool) -> Iterator[str]:
    """What is told to people, a line each; ``same`` are the options that make the next command mean the same."""
    if not news.anything:
        but = ", as far as the notes below leave that to be told" if news.notices else ""
        yield f"The matrix has all that the package index has on {news.day}{but}."
    for release in news.releases:
        known = (
            f"the newest that is locked is {release.locked}"
            if release.locked
            else "no lock has the package"
        )
        yield f"release   {release.package} {release.version} of {release.released}: {known}"
    yield from (f"added     {name}" for name in news.added)
    yield from (f"removed   {name}: what was recorded is kept" for name in news.removed)
    yield from (f"unlocked  {name}" for name in news.unlocked)
    yield from (
        f"table     {place} is new or was changed since the index was read" for place in news.unread
    )
    for yanked in news.yanked:
        then = (
            "the next lock is without it"
            if yanked.moves
            else "its lock is of its day, or asks for it, and stays"
        )
        yield f"yanked    {yanked.package} {yanked.version} in {yanked.stack}: {then}"
    yield from (f"note: {notice}" for notice in news.notices)
    if news.suggestion:
        yield f"For matrix.toml, to keep a release beside what comes after it:\n\n{news.suggestion}"
    yield from _next_steps(news, same, wrote=wrote)


def _next_steps(news: News, same: str, *, wrote: bool) -> Iterator[str]:
    if (news.unread or news.added or news.removed) and not wrote:
        yield f"next: nox -s harness -- refresh{same}, which writes the generated stacks"
    elif (
        news.added or news.unlocked or news.releases or any(yanked.moves for yanked in news.yanked)
    ):
        lock = f"nox -s lock --{same}" if same else "nox -s lock"
        yield f"next: {lock}, which locks what has no lock, and moves stacks as of today"


def register_shards(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add these commands to the command line."""
    text = "plan jobs for the cells that must run, print them as a GitHub Actions matrix; nothing is run"
    shards = add(commands, "shards", shards_command, text)
    _add_sessions(shards)
    shards.add_argument(
        "--since-published",
        action="store_true",
        help="a cell counts as known where its published record has the same key, not only where it was run here",
    )
    shards.add_argument(
        "--output", type=Path, metavar="FILE", help="write the shards here, for the command shard"
    )
    shards.add_argument(
        "--settled",
        type=Path,
        metavar="DIR",
        help="record here what is known without running, for the command merge",
    )

    shard = add(
        commands, "shard", shard_command, "run the cells of one shard; its records go to --results"
    )
    shard.add_argument("file", type=Path, metavar="FILE", help="what shards --output wrote")
    shard.add_argument("name", metavar="NAME", help="the shard")
    shard.add_argument(
        "--explain", action="store_true", help="say of every cell why it is run or not"
    )
    shard.add_argument("-v", "--verbose", action="store_true", help="show what the scenarios print")

    merge = add(
        commands,
        "merge",
        merge_command,
        "take the records of shards, and write the matrix from all of them",
    )
    merge.add_argument(
        "folders",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="results of shards, or a folder of them",
    )
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
    parser.add_argument(
        "sessions", metavar="SESSIONS", help="a file of what nox -t all --list --json prints, or -"
    )
    parser.add_argument(
        "--jobs",
        type=_jobs,
        default=MOST_JOBS,
        metavar="N",
        help=f"at most so many jobs (default: {MOST_JOBS})",
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
    with show.Display(notes) as display:
        stacks = _stacks(options, project)
        cells, missing = night.planned(
            project, stacks, display, since_published=options.since_published
        )
        plan = night.shards(project, cells, options.jobs, options.setting_up)
        if options.settled:
            apart = Project.at(
                project.root, matrix_file=project.matrix_file, results=options.settled
            )
            night.settle(apart, cells, display)
    if options.output:
        files.write_atomically(
            options.output, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"
        )
    for shard in plan.shards:
        notes.print(
            Text(f"{shard.name}: {len(shard.cells)} cells, {shard.expected_s:.0f} s"),
            soft_wrap=True,
        )
    for error in missing:  # the other stacks' night goes on; GitHub shows such a line above the run
        mark = "::warning::" if os.environ.get("GITHUB_ACTIONS") else "warning: "
        notes.print(
            Text(f"{mark}left out: {plain(error.what)} {plain(error.cause)}", style="yellow"),
            soft_wrap=True,
        )
    total = sum(len(shard.cells) for shard in plan.shards)
    kept = len(cells) - total - plan.settled
    notes.print(
        f"{len(plan.shards)} jobs for {total} cells; {kept} are recorded, {plan.settled} need no run"
    )
    console.out(msgspec.json.encode(github_matrix(plan.shards)).decode(), highlight=False)
    return warn_and_code(project, notes, failed=False)


def shard_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``shard``: failing cells are results; 0 when all have one."""
    shard = night.read(options.file).named(options.name)
    with show.Display(console, verbose=options.verbose, explain=options.explain) as display:
        summary = night.run_shard(project, shard, display)
    show.show_summary(console, summary)
    return warn_and_code(project, console, failed=False)


def merge_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``merge``: what was taken, and what was not."""
    plan = night.read(options.plan) if options.plan else None
    with show.Display(console) as display:
        found, new = night.merged(project, options.folders, display, plan)
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
    with (
        tempfile.TemporaryDirectory(prefix="gradmatrix-") as folder,
        show.Display(console) as display,
    ):
        apart = replace(project, results=options.results or Path(folder))
        rehearsed = night.rehearse(
            apart, stacks, display, jobs=options.jobs, setting_up_s=options.setting_up
        )
    for shard in rehearsed.shards:
        console.print(Text(f"{shard.name}: {len(shard.cells)} cells"), soft_wrap=True)
    for difference in rehearsed.differences:
        console.print(Text(plain(difference), style="red"), soft_wrap=True)
    many = len(rehearsed.differences)
    cells, ran, shards = rehearsed.cells, rehearsed.ran, len(rehearsed.shards)
    console.print(
        f"{cells} cells published twice, of which {ran} ran plainly and in {shards} shards: {many} differ"
    )
    return 1 if many else 0


def _stacks(options: argparse.Namespace, project: Project) -> list[Stack]:
    """The stacks of nox's sessions."""
    try:
        sessions = (
            sys.stdin.buffer.read()
            if options.sessions == "-"
            else Path(options.sessions).read_bytes()
        )
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
