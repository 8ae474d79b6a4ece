"""What several commands do with their options: which stacks are meant, what the next command needs."""

from __future__ import annotations

import shlex
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


def again(options: argparse.Namespace) -> str:
    """The options that a next command needs to mean the same matrix, with a space before each."""
    given = {"--root": options.root, "--matrix": options.matrix, "--results": options.results}
    return "".join(
        f" {name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None
    )


def chosen(project: Project, names: Sequence[str], *, everything: bool) -> list[Stack]:
    """The stacks that were asked for: the named ones, all, or the core stacks.

    Raises:
        UserError: if a name is unknown, if both names and all are asked for, or if there is no
            core stack.
    """
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
    """UserError if stacks are named and all stacks are asked for."""
    if names and everything:
        raise UserError(
            f"--all and a stack's name ({names[0]}) exclude each other.",
            cause="nox -s matrix names each core stack for you",
            next_step="nox -t all, or gradmatrix run --all",
        )


def warn_and_code(project: Project, console: Console, *, failed: bool) -> int:
    """Print which records could not be read; return the exit code."""
    for problem in dict.fromkeys((*project.store.problems, *project.local.store.problems)):
        console.print(Text(f"warning: {plain(problem)}", style="yellow"), soft_wrap=True)
    return 1 if failed else 0
