"""What the commands share: the options that all of them have, and which stacks are meant."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from gradmatrix.core.errors import UserError
from gradmatrix.core.text import plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rich.console import Console

    from gradmatrix.core.model import Stack
    from gradmatrix.run.project import Project

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    command: object,
    text: str,
) -> argparse.ArgumentParser:
    """A subcommand with the options that all of them have."""
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command, parser=parser)
    parser.add_argument(
        "--root", type=Path, default=ROOT, metavar="DIR", help="the checkout (default: this one)"
    )
    parser.add_argument(
        "--matrix", type=Path, default=None, metavar="FILE", help="another matrix.toml"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=None,
        metavar="DIR",
        help="write results here, not to results/",
    )
    return parser


def again(options: argparse.Namespace) -> str:
    """What a next command needs to mean the same matrix and results: with a space before it, or empty."""
    given = (
        ("--root", options.root, ROOT),
        ("--matrix", options.matrix, None),
        ("--results", options.results, None),
    )
    return "".join(
        f" {name} {shlex.quote(str(value))}" for name, value, usual in given if value != usual
    )


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
