"""``trace``: one script of the user's own, under the observer."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.text import Text

from harness import disk
from harness.commands.options import ROOT
from harness.errors import UserError
from harness.finding import Finding, headline, report
from harness.interpreter import interpreter
from harness.nearest import remedy_near
from harness.publish.text import one_line
from harness.trace import command_line, trace

if TYPE_CHECKING:
    from harness.causes import Diagnosis
    from harness.observation import Observation
    from harness.project import Project
    from harness.remedy import Remedy

USAGE = "gradmatrix trace [--python PATH] [--steps N] [--json] [--output FILE] (SCRIPT | -m MODULE) [ARGS ...]"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line; of a project it wants published remedies only."""
    text = "run a training script unmodified and say whether, and why not, its gradient flows"
    parser = commands.add_parser("trace", help=text, description=text, usage=USAGE, allow_abbrev=False)
    parser.set_defaults(command=trace_command, root=ROOT, matrix=None, results=None)
    parser.add_argument(
        "--python",
        type=Path,
        metavar="PATH",
        help="the Python, or the environment's folder (default: the first one with torch of this one, VIRTUAL_ENV, "
        "CONDA_PREFIX and PATH)",
    )
    parser.add_argument("--steps", type=positive, metavar="N", help="stop the script after N optimizer steps")
    parser.add_argument("--json", action="store_true", help="one JSON document as the last line of the output")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write that JSON document to FILE")
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module, as python -m does"
    )
    parser.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT",
        help="the script, or a command of its environment such as torchrun; all that follows is its own",
    )


def positive(text: str) -> int:
    """A number of steps."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one step")
    return number


def trace_command(options: argparse.Namespace, project: Project, _console: Console) -> int:
    """``trace``: the script's own exit code."""
    words = options.module if options.module is not None else options.script
    if not words:
        raise UserError("Nothing to trace.", cause="there is neither a script nor a module", next_step=USAGE)
    refuse_unwritable(options.output)
    command = command_line(interpreter(options.python), words, module=options.module is not None)
    finding = trace(command, steps=options.steps, remedy_for=partial(published_remedy, project))
    document = msgspec.json.encode(finding)
    if options.output is not None:
        disk.write_atomically(options.output, document + b"\n")
    if options.json:
        sys.stdout.write(f"\n{document.decode()}\n")  # the script's last line may lack its end
    else:
        show(finding, Console(stderr=True, highlight=False))
    return finding.exit_code


def published_remedy(project: Project, diagnosis: Diagnosis, seen: Observation) -> Remedy | None:
    """What the matrix knows; nothing where there is none, and no reason to lose what was found."""
    try:
        published = project.published(project.store.everything().values())
    except (OSError, UserError):
        return None
    return remedy_near(published, diagnosis, seen.environment)


def refuse_unwritable(output: Path | None) -> None:
    """UserError where the document could not be written when the script has run."""
    if output is None or (output.absolute().parent.is_dir() and not output.is_dir()):
        return
    cause = "it is a folder" if output.is_dir() else "its folder is not there"
    raise UserError(f"{output} cannot be written.", cause=cause, next_step="name a file in a folder that exists")


def show(finding: Finding, console: Console) -> None:
    """Print the report, below what the script printed."""
    style = "bold green" if finding.outcome == "trains" else "bold red"
    console.print(Text.assemble("gradmatrix trace: ", (one_line(headline(finding)), style)), soft_wrap=True)
    for line in report(finding):
        console.print(Text(f"  {one_line(line)}"), soft_wrap=True)
