"""Arguments and printing; no logic. The only place that turns an error into an exit code."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from harness import bench, terminal
from harness.environment import InstallFailed
from harness.errors import UserError
from harness.project import Project
from harness.publish.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model import Stack

ROOT = Path(__file__).resolve().parent.parent
REPEAT = 'nox -s "matrix({stack})" -- --cell {scenario}/{variant} --fresh'


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 1 it found what it was asked to find, 2 it could not be done."""
    options = parser().parse_args(arguments)
    console = Console(highlight=False)
    try:
        project = Project.at(options.root, matrix_file=options.matrix, results=options.results)
        code: int = options.command(options, project, console)
    except UserError as error:
        Console(stderr=True, highlight=False).print(Text(f"gradmatrix: {plain(str(error))}"), soft_wrap=True)
        return 2
    except (OSError, InstallFailed) as error:
        what = UserError(
            f"It cannot go on: {error}.",
            cause="this machine did not let it read or write, or a stack could not be installed",
            next_step="mend that and run the same command again; what has been recorded is kept",
        )
        Console(stderr=True, highlight=False).print(Text(f"gradmatrix: {plain(str(what))}"), soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        Console(stderr=True).print(
            "gradmatrix: stopped; every finished cell is recorded, run the same command to go on"
        )
        return 130
    return code


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="gradmatrix", description="Which training stacks really train?")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

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

    lock = add(commands, "lock", lock_command, "resolve stacks again, as of their dates, into results/locks/")
    lock.add_argument(
        "stacks", nargs="*", metavar="STACK", help="default: those without a current lock, and as_of today"
    )
    lock.add_argument("--all", action="store_true", help="every stack of matrix.toml")

    table = add(commands, "table", table_command, "print the matrix from the records, and write it to results/")
    table.add_argument("stacks", nargs="*", metavar="STACK", help="only these columns")

    same = add(
        commands, "isolation", isolation_command, "repeat cells in fresh processes: do forks give the same verdict?"
    )
    same.add_argument("stacks", nargs="+", metavar="STACK")
    same.add_argument("--scenario", action="append", default=[], metavar="NAME", help="only this scenario (repeatable)")
    same.add_argument(
        "--cell", action="append", default=[], metavar="SCENARIO/VARIANT", help="only this cell (repeatable)"
    )
    same.add_argument("--device", action="append", default=[], metavar="NAME", help="only this device: cpu or cuda")

    measure = add(commands, "bench", bench_command, "measure the performance contract on one installed stack")
    measure.add_argument("stacks", nargs="?", default=None, metavar="STACK", help="default: the newest core stack")

    add(commands, "list", list_command, "the stacks, scenarios and variants")
    return top


def add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, command: object, text: str
) -> argparse.ArgumentParser:
    """A subcommand with the options that all of them have."""
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command)
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the checkout (default: this one)")
    parser.add_argument("--matrix", type=Path, default=None, metavar="FILE", help="another matrix.toml")
    parser.add_argument("--results", type=Path, default=None, metavar="DIR", help="write results here, not to results/")
    return parser


def run_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``run``: the main job."""
    stacks = chosen(project, options.stacks, everything=options.all)
    selection = project.selection(
        scenario=options.scenario, cell=options.cell, device=options.device, fresh=options.fresh
    )
    try:
        with terminal.Display(console, verbose=options.verbose, explain=options.explain) as display:
            for stack in stacks:
                display.stage(stack.name, "locking")
                run = project.stack_run(stack, display)
                terminal.show_summary(console, run.execute(selection))
                terminal.show_fallen_behind(console, project.fallen_behind(run.lock))
                if options.drop_environments:
                    project.drop_environment(stack)
    finally:  # also where a later stack could not be installed
        records = project.publish()
    names = [stack.name for stack in stacks]
    asked = {cell: r for cell, r in records.items() if cell.stack in names and selection.has(cell)}
    if not options.no_table:
        terminal.show_matrix(console, project.published(records.values()), names)
        terminal.show_failures(console, asked, REPEAT)
    return warn_and_code(project, console, failed=options.strict and any(r.passed is False for r in asked.values()))


def lock_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``lock``: resolve anew; a stack that cannot be resolved is reported and makes the exit code 1."""
    failures = 0
    refuse_both(options.stacks, everything=options.all)
    for stack in project.stacks_to_lock(options.stacks, everything=options.all):
        lock = project.relock(stack)
        failures += lock.failure is not None
        what = f"{len(lock.packages)} packages" if lock.failure is None else lock.failure.outcome
        console.print(Text(f"{stack.name}: {what}, as of {lock.as_of}"), soft_wrap=True)
        terminal.show_fallen_behind(console, project.fallen_behind(lock))
        if lock.failure is not None:
            console.print(Text(plain(lock.failure.message)), soft_wrap=True)
    return 1 if failures else 0


def table_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``table``: print and write what is recorded."""
    for name in options.stacks:
        project.matrix.stack(name)
    records = project.publish()
    published = project.published(records.values())
    names = options.stacks or [s for s in published.stacks if any(cell.stack == s for cell in records)]
    terminal.show_matrix(console, published, names)
    asked = {cell: r for cell, r in records.items() if cell.stack in names}
    terminal.show_failures(console, asked, REPEAT)
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


def bench_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``bench``: print each ratio as it is measured."""
    stack = chosen(project, [options.stacks] if options.stacks else [], everything=False)[-1]
    console.print(f"measured on {stack.name}, one run")
    for ratio in bench.measure(project, stack):
        console.print(Text(str(ratio)), soft_wrap=True)
    return 0


def list_command(_options: argparse.Namespace, project: Project, console: Console) -> int:
    """``list``: what there is."""
    for stack in project.matrix.stacks:
        console.print(
            Text(f"{stack.name:22} as of {stack.as_of}{'  core' if stack.core else ''}  {stack.summary}"),
            soft_wrap=True,
        )
    terminal.show_plan(console, {s.name: s for s in project.chosen_scenarios()})
    return 0


def chosen(project: Project, names: Sequence[str], *, everything: bool) -> list[Stack]:
    """The stacks that were asked for: the named ones, all, or the core."""
    refuse_both(names, everything=everything)
    if names:
        return [project.matrix.stack(name) for name in names]
    stacks = list(project.matrix.stacks if everything else project.matrix.core)
    if not stacks:
        raise UserError(
            f"No stack of {project.matrix_file.name} is a core stack.",
            cause="without a name, the core stacks are meant",
            next_step=f"name a stack, or write core = true into one in {project.matrix_file.name}",
        )
    return stacks


def refuse_both(names: Sequence[str], *, everything: bool) -> None:
    """UserError where stacks are named and all of them are asked for."""
    if names and everything:
        raise UserError(
            f"--all and a stack's name ({names[0]}) exclude each other.",
            cause="with nox, -s matrix names each core stack",
            next_step="nox -t all, or nox -s harness -- run --all",
        )


def warn_and_code(project: Project, console: Console, *, failed: bool) -> int:
    """Print what could not be read of the records; the exit code."""
    for problem in project.store.problems:
        console.print(Text(f"warning: {plain(problem)}", style="yellow"), soft_wrap=True)
    return 1 if failed else 0


def script() -> None:
    """The ``gradmatrix`` command."""
    sys.exit(main())
