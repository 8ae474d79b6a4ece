"""The command line, put together; the only place that turns an error into an exit code."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.text import Text

from gradmatrix.cli import history, matrix, trace, upgrade
from gradmatrix.core.errors import UserError, did_you_mean
from gradmatrix.core.text import plain
from gradmatrix.run.project import Project
from gradmatrix.stacks.environment import InstallFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

Family = Callable[["argparse._SubParsersAction[argparse.ArgumentParser]"], None]  # noqa: SLF001  (the only name of that type)
FAMILIES: tuple[Family, ...] = (
    matrix.register_matrix,
    trace.register_why,
    upgrade.register_upgrade,
    upgrade.register_compare,
    trace.register_trace,
    trace.register_check,
    trace.register_capsule,
    matrix.register_shards,
    matrix.register_refresh,
    history.register_history,
    history.register_claims,
)
"""What adds the commands, in the order in which ``--help`` shows them."""


def main(arguments: Sequence[str] | None = None, families: Sequence[Family] = FAMILIES) -> int:
    """Run one command of ``families``.

    Returns:
        The exit code: 0 done, 1 found what it was asked to find, 2 could not be done, 3 no lock, or inconclusive.
    """
    options, unknown = parser(families).parse_known_args(arguments)
    if unknown:
        refuse(options.parser, unknown[0])
    console = Console(highlight=False)
    try:
        project = Project.at(options.root, matrix_file=options.matrix, results=options.results)
        code: int = options.command(options, project, console)
        for notice in project.index.notices:
            Console(stderr=True, highlight=False).print(
                Text(f"note: {plain(notice)}"), soft_wrap=True
            )
    except UserError as error:
        Console(stderr=True, highlight=False).print(
            Text(f"gradmatrix: {plain(str(error))}"), soft_wrap=True
        )
        return 2
    except (OSError, InstallFailed) as error:
        what = UserError(
            f"It cannot go on: {error}.",
            cause="this machine did not let it read or write, or a stack could not be installed",
            next_step="mend that and run the same command again; what has been recorded is kept",
        )
        Console(stderr=True, highlight=False).print(
            Text(f"gradmatrix: {plain(str(what))}"), soft_wrap=True
        )
        return 2
    except KeyboardInterrupt:
        Console(stderr=True).print(
            "gradmatrix: stopped; every finished cell is recorded, run the same command to go on"
        )
        return 130
    return code


def parser(families: Sequence[Family] = FAMILIES) -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="gradmatrix", description="Which training stacks really train?"
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for register in families:
        register(commands)
    return top


def refuse(command: argparse.ArgumentParser, unknown: str) -> NoReturn:
    """Say which word a command does not know, with its own usage and not that of all commands; exit code 2."""
    known = re.findall(r"--[a-z-]+", command.format_usage())
    meant = (
        did_you_mean(unknown.partition("=")[0], known)
        if unknown.startswith("-")
        else "it takes no more words"
    )
    command.error(f"unrecognized argument: {unknown} ({meant})")


def script() -> None:
    """The ``gradmatrix`` command."""
    sys.exit(main())
