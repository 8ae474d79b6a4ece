"""The command line, put together; the only place that turns an error into an exit code."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.text import Text

from harness.commands import (
    audit,
    bench,
    capsule,
    check,
    claims,
    compare,
    history,
    matrix,
    page,
    refresh,
    shards,
    trace,
    upgrade,
    why,
)
from harness.environment import InstallFailed
from harness.errors import UserError, did_you_mean
from harness.project import Project
from harness.publish.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

FAMILIES = (matrix, page, why, upgrade, compare, trace, check, capsule, audit, bench, shards, refresh, history, claims)
"""Modules of commands, in the order in which ``--help`` shows them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command: 0 done, 1 found what it was asked to find, 2 could not be done, 3 no lock, or inconclusive."""
    options, unknown = parser().parse_known_args(arguments)
    if unknown:
        refuse(options.parser, unknown[0])
    console = Console(highlight=False)
    try:
        project = Project.at(options.root, matrix_file=options.matrix, results=options.results)
        code: int = options.command(options, project, console)
        for notice in project.index.notices:
            Console(stderr=True, highlight=False).print(Text(f"note: {plain(notice)}"), soft_wrap=True)
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
    for family in FAMILIES:
        family.register(commands)
    return top


def refuse(command: argparse.ArgumentParser, unknown: str) -> NoReturn:
    """Say which word a command does not know, with its own usage and not that of all commands; exit code 2."""
    known = re.findall(r"--[a-z-]+", command.format_usage())
    meant = did_you_mean(unknown.partition("=")[0], known) if unknown.startswith("-") else "it takes no more words"
    command.error(f"unrecognized argument: {unknown} ({meant})")


def script() -> None:
    """The ``gradmatrix`` command."""
    sys.exit(main())
