"""What a shell completes: commands and options, the names of the matrix, and files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import argcomplete
from argcomplete.completers import BaseCompleter, FilesCompleter
from argcomplete.shell_integration import shellcode

from gradmatrix.publish.claims.claims import load_claims
from gradmatrix.run.project import Project

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

NAMES_OR_FILES = ("BASELINE", "RUN", "WHAT")


def completion_command(options: argparse.Namespace, _project: Project, _console: Console) -> int:
    """Print the script for a shell."""
    sys.stdout.write(shellcode(["gradmatrix"], shell=options.shell))
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Tell the shell that asks what can stand in place of a word, and end the process."""
    argcomplete.autocomplete(parser, default_completer=Words())


class Words(BaseCompleter):
    """What can stand for an argument: names of the matrix, or files."""

    def __call__(
        self,
        *,
        prefix: str,
        action: argparse.Action,
        parser: argparse.ArgumentParser,
        parsed_args: argparse.Namespace,
    ) -> list[str]:
        """Complete what is typed of an argument; of a cell, one part after the other."""
        del parser
        metavar = str(action.metavar)
        try:
            known = names(metavar, Project.of_options(parsed_args))
        except Exception:  # noqa: BLE001  (a shell has no place for an error)
            known = []
        files = FilesCompleter()(prefix) if not known or metavar in NAMES_OR_FILES else ()
        parts = prefix.count("/") + 1
        heads = {
            "/".join(words[:parts]) + "/" * (len(words) > parts): None
            for words in (name.split("/") for name in known)
        }
        return [*heads, *files]


def names(metavar: str, project: Project) -> list[str]:
    """The names of the matrix that an argument takes, by what the help calls it."""
    stacks = [stack.name for stack in project.matrix.stacks]
    scenarios = project.chosen_scenarios()
    variants = [f"{each.name}/{variant.name}" for each in scenarios for variant in each.variants]
    match metavar:
        case "STACK" | "BASELINE" | "RUN" | "WHAT":
            return stacks
        case "SCENARIO":
            return [each.name for each in scenarios]
        case "SCENARIO/VARIANT":
            return variants
        case "[STACK/]SCENARIO/VARIANT[/DEVICE]" | "MESSAGE|CELL|NAME":
            return [*variants, *(f"{stack}/{each}" for stack in stacks for each in variants)]
        case "ID|SCENARIO":
            claims = load_claims(project.root, project.known_scenarios())
            return [*(each.name for each in scenarios), *(claim.id for claim in claims)]
    return []
