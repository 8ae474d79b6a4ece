"""``run``, ``lock``, ``table``, ``publish``, ``isolation``, ``list``: the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from harness import publication, terminal
from harness.commands.options import add, chosen, refuse_both, warn_and_code
from harness.project import NoSuchRelease, by_date
from harness.publish.text import plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from harness.model import Stack
    from harness.project import Project

REPEAT = 'nox -s "matrix({stack})" -- --cell {scenario}/{variant} --fresh'
LOCK = "resolve stacks again, as of their dates, into results/locks/; 3 where one does not resolve"
UNRESOLVED = 3
"""The exit code where a stack does not resolve: what was to be told, and no error of ours."""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add these commands to the command line."""
    run = add(commands, "run", run_command, "install stacks, run scenarios in them, write and print the matrix")
    run.add_argument("stacks", nargs="*", metavar="STACK", help="stacks of matrix.toml (default: the core ones)")
    run.add_argument("--all", action="store_true", help="every stack of matrix.toml")
    run.add_argument("--scenario", action="append", default=[], metavar="NAME", help="only this scenario (repeatable)")
    run.add_argument(
        "--cell", action="append", default=[], metavar="SCENARIO/VARIANT", help="only this cell (repeatable)"
    )
    run.add_argument("--device", action="append", default=[], metavar="NAME", help="only this device: cpu or cuda")
    run.add_argument("--fresh", action="store_true", help="run the cells even where their outcome is recorded")
    run.add_argument("--explain", action="store_true", help="say of every cell why it is run or not")
    run.add_argument("--strict", action="store_true", help="exit with 1 where a judged cell does not pass")
    run.add_argument("--drop-environments", action="store_true", help="delete an environment after its cells ran")
    run.add_argument("--no-table", action="store_true", help="write the matrix, but do not print it")
    run.add_argument("-v", "--verbose", action="store_true", help="show what the scenarios print")

    lock = add(commands, "lock", lock_command, LOCK)
    lock.add_argument(
        "stacks", nargs="*", metavar="STACK", help="default: those without a current lock, and as_of today"
    )
    lock.add_argument("--all", action="store_true", help="every stack of matrix.toml")

    table = add(commands, "table", table_command, "print the matrix from the records, and write it to results/")
    table.add_argument("stacks", nargs="*", metavar="STACK", help="only these columns")

    pages = add(commands, "publish", publish_command, "write the matrix to results/ with its pages: results/index.html")
    pages.add_argument(
        "--base-url", default=None, metavar="URL", help="where results/ is served: for the addresses in feed.xml"
    )

    same = add(
        commands, "isolation", isolation_command, "repeat cells in fresh processes: do forks give the same verdict?"
    )
    same.add_argument("stacks", nargs="+", metavar="STACK")
    same.add_argument("--scenario", action="append", default=[], metavar="NAME", help="only this scenario (repeatable)")
    same.add_argument(
        "--cell", action="append", default=[], metavar="SCENARIO/VARIANT", help="only this cell (repeatable)"
    )
    same.add_argument("--device", action="append", default=[], metavar="NAME", help="only this device: cpu or cuda")

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
        with terminal.Display(console, verbose=options.verbose, explain=options.explain) as display:
            for stack in stacks:
                display.stage(stack.name, "locking")
                try:
                    run = project.stack_run(stack, display)
                except NoSuchRelease as error:
                    missing[stack.name] = error
                    continue
                terminal.show_summary(console, run.execute(selection))
                terminal.show_fallen_behind(console, project.fallen_behind(run.lock))
                if options.drop_environments:
                    project.drop_environment(stack)
    finally:  # also where a later stack could not be installed
        publication.publish(project)
    names = [stack.name for stack in stacks if stack.name not in missing]
    records = project.records_of(names)
    asked = {cell: r for cell, r in records.items() if selection.has(cell)}
    if not options.no_table:
        terminal.show_matrix(console, project.published(records.values()), names)
        terminal.show_failures(console, asked, REPEAT)
    code = warn_and_code(project, console, failed=options.strict and any(r.passed is False for r in asked.values()))
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
        terminal.show_fallen_behind(console, project.fallen_behind(lock))
        if lock.failure is not None:
            console.print(Text(plain(lock.failure.message)), soft_wrap=True)
    return unresolved(missing, stacks) or (UNRESOLVED if failures else 0)


def unresolved(missing: dict[str, NoSuchRelease], stacks: Sequence[Stack]) -> int:
    """Tell what is ``missing`` when the other stacks are done; the exit code. NoSuchRelease where there is no other."""
    for error in missing.values():
        if len(stacks) == 1:
            raise error
        Console(stderr=True, highlight=False).print(Text(f"gradmatrix: {plain(str(error))}"), soft_wrap=True)
    return UNRESOLVED if missing else 0


def table_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``table``: print and write what is recorded."""
    for name in options.stacks:
        project.matrix.stack(name)
    publication.publish(project)
    names = options.stacks or [lock.stack for lock in by_date(project.known_locks())]
    records = project.records_of(names)
    recorded = {cell.stack for cell in records}
    terminal.show_matrix(console, project.published(records.values()), [name for name in names if name in recorded])
    terminal.show_failures(console, records, REPEAT)
    return warn_and_code(project, console, failed=False)


def publish_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``publish``: the data files and the pages."""
    written = publication.publish(project, site=True, base_url=options.base_url)
    console.print(Text(f"{'published' if written else 'up to date'}: {project.results / 'index.html'}"), soft_wrap=True)
    return warn_and_code(project, console, failed=False)


def isolation_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``isolation``: 1 where a fork and a fresh process disagree on a verdict."""
    selection = project.selection(scenario=options.scenario, cell=options.cell, device=options.device, fresh=True)
    different = 0
    for stack in chosen(project, options.stacks, everything=False):
        with terminal.Display(console) as display:
            pairs = project.compare_isolation(stack, selection, display)
        for forked, fresh in pairs:
            if (forked.outcome, forked.gradient, forked.passed) != (fresh.outcome, fresh.gradient, fresh.passed):
                different += 1
                console.print(Text(f"{forked.cell}: fork {forked.outcome}, fresh process {fresh.outcome}"))
        console.print(Text(f"{stack.name}: {len(pairs)} cells compared"))
    console.print(f"{different} verdicts differ between a fork and a fresh process")
    return 1 if different else 0


def list_command(_options: argparse.Namespace, project: Project, console: Console) -> int:
    """``list``: what there is."""
    for stack in project.matrix.stacks:
        console.print(
            Text(f"{stack.name:22} as of {stack.as_of}{'  core' if stack.core else ''}  {stack.summary}"),
            soft_wrap=True,
        )
    terminal.show_plan(console, {s.name: s for s in project.chosen_scenarios()})
    return 0
