"""The command line: read the words, find the checkout, run the command.

Only this module turns an error into an exit code.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from gradmatrix import __version__
from gradmatrix.cli.commands import EXTRA, register

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradmatrix.cli.commands import Commands
    from gradmatrix.core.errors import UserError

MISTYPED = re.compile(r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)")
"""What argparse says of an unknown command."""
EXAMPLES = """
where to begin:
  gradmatrix trace train.py          why does my script not train?
  gradmatrix why "error message"     what helps against it?
  gradmatrix check                   which known problems has my environment?
  gradmatrix upgrade . --to latest   may I upgrade?
  gradmatrix COMMAND --help          the options of a command
"""
Family = Callable[["Commands"], None]
FAMILIES: tuple[Family, ...] = (register,)
"""What adds the commands of ``gradmatrix``; ``python -m tools`` has others."""


def main(arguments: Sequence[str] | None = None, families: Sequence[Family] = FAMILIES) -> int:
    """Run one command of ``families``.

    Returns:
        The exit code: 0 done, 1 found what it was asked to find, 2 could not be done, 3 does not
        resolve or inconclusive, 130 interrupted.
    """
    options, unknown = parser(families).parse_known_args(arguments)
    if unknown:
        refuse(options.parser, unknown[0])
    from gradmatrix.core.errors import UserError

    try:
        if "begin" in options:
            options.begun = imported(options.begin)(options)
        return run(options)
    except UserError as error:
        say(f"gradmatrix: {error}")
        return 2
    except ModuleNotFoundError as error:
        if not is_missing(error.name or ""):
            raise
        say(f"gradmatrix: {lacks(error.name)}")
        return 2
    except KeyboardInterrupt:
        say("gradmatrix: stopped. Finished cells are kept; the same command continues.")
        return 130


def run(options: argparse.Namespace) -> int:
    """Run the command of ``options`` in its project."""
    from rich.console import Console

    from gradmatrix.core.errors import UserError
    from gradmatrix.run.bundle import dated
    from gradmatrix.run.project import Project
    from gradmatrix.stacks.environment import InstallFailed

    try:
        project = Project.of_options(options)
        for name in filter(is_missing, getattr(options, "modules", ())):
            raise lacks(name)
        if project.carried is not None:
            say(
                "note: no matrix.toml here has published scenarios, so this is the matrix "
                f"published on {dated(project.carried)}"
            )
        command: Callable[..., int] = imported(options.command)
        # with --json only the document goes to the standard output
        apart = getattr(options, "json", None) is True
        code = command(options, project, Console(stderr=apart, highlight=False))
        for notice in project.index.notices:
            say(f"note: {notice}")
    except (OSError, InstallFailed) as error:
        raise UserError(
            f"The command stopped: {error}.",
            cause="this machine could not read or write a file, or could not install a stack",
            next_step="Fix this and run the command again. Finished cells are kept.",
        ) from error
    return code


def is_missing(name: str) -> bool:
    """Whether a package of the extra ``matrix`` is not installed."""
    return name.partition(".")[0] in EXTRA and importlib.util.find_spec(name) is None


def lacks(name: str | None) -> UserError:
    """What to say if a package of the extra ``matrix`` is not installed."""
    from gradmatrix.core.errors import UserError

    return UserError(
        f"This command needs {name}, which is not installed.",
        cause="gradmatrix was installed without its extra `matrix`: that is enough for trace, "
        "check, why, claims, history, list, capsule, regressions, update and completion",
        next_step=f'pip install "{installed_as()}", or: uvx --from "{installed_as()}" gradmatrix …',
    )


def installed_as(*, elsewhere: bool = False) -> str:
    """The requirement that installs this gradmatrix with the extra ``matrix``.

    It is the commit or the file that this one came from, or else this release. ``elsewhere`` is
    another machine, which has no file of this one.
    """
    import json
    from importlib import metadata

    try:
        origin = json.loads(
            metadata.distribution("gradmatrix").read_text("direct_url.json") or "{}"
        )
    except metadata.PackageNotFoundError:
        origin = {}
    commit = origin.get("vcs_info", {}).get("commit_id")
    if commit:
        return f"gradmatrix[matrix] @ git+{origin['url']}@{commit}"
    if origin and not elsewhere:
        return f"gradmatrix[matrix] @ {origin['url']}"
    return f"gradmatrix[matrix]=={__version__}"


def parser(families: Sequence[Family] = FAMILIES) -> argparse.ArgumentParser:
    """The command line."""
    top = Parser(
        prog="gradmatrix", description="Which training stacks really train?", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"gradmatrix {__version__}")
    commands = top.add_subparsers(
        required=True, metavar="COMMAND", parser_class=argparse.ArgumentParser
    )
    for each in families:
        each(commands)
    return top


class Parser(argparse.ArgumentParser):
    """A parser that suggests a command for a mistyped one, and for none."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit with 2."""
        from gradmatrix.core.errors import did_you_mean

        if message.endswith("required: COMMAND"):
            message = f"no command is named\n{EXAMPLES.rstrip()}"
        mistyped = MISTYPED.search(message)
        if mistyped is not None:
            meant = did_you_mean(mistyped[1], re.findall(r"[\w-]+", mistyped[2]))
            message = f"there is no command {mistyped[1]!r} ({meant})"
        super().error(message)


def imported(command: Callable[..., Any] | str) -> Callable[..., Any]:
    """A command's function; "module.function" of this folder is imported now."""
    if not isinstance(command, str):
        return command
    module, _, function = command.partition(".")
    found: Callable[..., Any] = getattr(
        importlib.import_module(f"gradmatrix.cli.{module}"), function
    )
    return found


def refuse(command: argparse.ArgumentParser, unknown: str) -> NoReturn:
    """Name the word that a command does not know, show the command's usage and exit with 2."""
    from gradmatrix.core.errors import did_you_mean

    known = re.findall(r"--[a-z-]+", command.format_usage())
    meant = (
        did_you_mean(unknown.partition("=")[0], known)
        if unknown.startswith("-")
        else "it takes no more words"
    )
    command.error(f"unrecognized argument: {unknown} ({meant})")


def say(text: str) -> None:
    """Print a sentence that may contain untrusted text on the error stream."""
    from rich.console import Console
    from rich.text import Text

    from gradmatrix.core.text import plain

    Console(stderr=True, highlight=False).print(Text(plain(text)), soft_wrap=True)


def script() -> None:
    """The ``gradmatrix`` command. A shell that completes a word starts it too."""
    if "_ARGCOMPLETE" in os.environ:
        from gradmatrix.cli.completion import complete

        complete(parser())
    sys.exit(main())
