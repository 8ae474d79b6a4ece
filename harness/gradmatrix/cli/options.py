"""What several commands need: the stacks that are meant, warnings, documents, files to write to."""

from __future__ import annotations

import shlex
import sys
from textwrap import wrap
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.text import Text

from gradmatrix.core.errors import UserError
from gradmatrix.core.text import one_line, plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from gradmatrix.core.model import Stack
    from gradmatrix.run.project import Project


def given_places(options: argparse.Namespace) -> str:
    """The options that a next command needs for the same checkout, with a space before each."""
    given = {"--root": options.root, "--matrix": options.matrix, "--results": options.results}
    return "".join(
        f" {name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None
    )


def chosen_stacks(project: Project, names: Sequence[str], *, everything: bool) -> list[Stack]:
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
            next_step=f"name a stack, or give one core = true in {project.matrix_file.name}",
        )
    return stacks


def refuse_both(names: Sequence[str], *, everything: bool) -> None:
    """UserError if stacks are named and all stacks are asked for."""
    if names and everything:
        raise UserError(
            f"--all cannot be combined with the name of a stack ({names[0]}).",
            cause="nox -s matrix names each core stack for you",
            next_step="nox -t all, or gradmatrix run --all",
        )


def refuse_address(options: argparse.Namespace) -> None:
    """UserError if a cluster is named and nothing runs there."""
    if options.address is not None and options.on is None:
        raise UserError(
            "--address names a cluster, and the run is on this machine.",
            cause="--on ray is missing",
            next_step=f"add --on ray, or leave out --address {options.address}",
        )


def refuse_on_ray(options: argparse.Namespace, option: str, cause: str) -> None:
    """UserError if an option is given that has no meaning on a cluster."""
    if options.on is not None:
        raise UserError(
            f"{option} cannot be used with --on ray.",
            cause=cause,
            next_step="leave one of them out",
        )


NARROW = 20
"""Text is not folded to fewer characters than this."""


def fold(console: Console, text: str, indent: int = 0, *, style: str = "") -> None:
    """Print a sentence that may contain untrusted text, folded to the width of the terminal."""
    for line in wrap(
        one_line(text),
        max(console.width - indent, NARROW),
        break_long_words=False,
        break_on_hyphens=False,
    ):
        console.print(Text(f"{' ' * indent}{line}", style=style), soft_wrap=True)


def print_json(document: object) -> None:
    """Print a document of ``--json`` on one line."""
    print_bytes(msgspec.json.encode(document) + b"\n")


def print_bytes(content: bytes) -> None:
    """Print ``content`` as it is, whatever encoding the terminal has."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def warn_and_code(project: Project, console: Console, *, failed: bool) -> int:
    """Print which records could not be read; return the exit code."""
    warn([*project.store.problems, *project.local.store.problems], console)
    return 1 if failed else 0


def warn(problems: Iterable[str], console: Console | None = None) -> None:
    """Print each problem once, on the error stream if no console is given."""
    console = console or Console(stderr=True, highlight=False)
    for problem in dict.fromkeys(problems):
        console.print(Text(f"warning: {plain(problem)}", style="yellow"), soft_wrap=True)
