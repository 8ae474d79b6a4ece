"""What a command does before the rest of it is imported.

``trace`` starts the script, and imports the rest while the script runs. ``run`` says that there is
no matrix.toml before it asks for packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradmatrix.cli.commands import TRACE
from gradmatrix.core.errors import UserError, refuse_unwritable
from gradmatrix.stacks.interpreter import interpreter
from gradmatrix.trace.running import Running, command_line, start

if TYPE_CHECKING:
    import argparse


def trace(options: argparse.Namespace) -> Running:
    """Start the script that ``trace`` was asked for.

    Raises:
        UserError: if there is none, or if the report could not be written.
    """
    words = options.module if options.module is not None else options.script
    if not words:
        raise UserError(
            "Nothing to trace.", cause="no script and no module is named", next_step=TRACE
        )
    if options.output is not None:
        refuse_unwritable(options.output)
    command = command_line(interpreter(options.python), words, module=options.module is not None)
    return start(command, options.steps)


def run(options: argparse.Namespace) -> None:
    """Refuse to run the core stacks of what the wheel carries, unless somebody asks for them.

    Raises:
        UserError: if there is no matrix.toml and no stack is named.
    """
    from gradmatrix.run.project import Project
    from gradmatrix.stacks.environment import GIB, NEEDED_BYTES

    if options.stacks or options.all or options.budget:
        return
    project = Project.of_options(options)
    if project.carried is not None:
        raise UserError(
            f"There is no {project.matrix_file.name} here, and no stack is named.",
            cause="the core stacks of the published matrix would be installed, each of up to "
            f"{max(NEEDED_BYTES.values()) / GIB:.0f} GiB: "
            f"{', '.join(stack.name for stack in project.matrix.core)}",
            next_step="gradmatrix init begins a matrix of your own project; to run the published "
            "one: gradmatrix run STACK, or gradmatrix run --all",
        )
