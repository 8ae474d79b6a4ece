"""What ``trace`` does first: start the script. The rest is imported while the script runs."""

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
