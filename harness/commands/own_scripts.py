"""Scripts that are named on the command line, as scenarios."""

from __future__ import annotations

import glob
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from harness import scripts
from harness.errors import UserError
from harness.matrix import Script
from harness.sides import path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model import Scenario
    from harness.project import Project


def own_scripts(given: Sequence[str], directory: Path | None, project: Project) -> tuple[Scenario, ...]:
    """The scripts of the command line as scenarios, named after their files; UserError where one is none.

    What they may import from beside them is part of what they are: the modules in their folder.
    """
    if directory is not None and not (given and directory.is_dir()):
        raise UserError(
            f"--directory {directory} cannot be used.",
            cause="there is no such folder" if given else "it is where scripts run, and no --script is given",
            next_step="name a folder, and a script with --script 'train.py --epochs 1'",
        )
    tables: list[Script] = []
    for text in given:
        words = split(text)
        path = path_of(words[0]) if words else Path()
        if not path.is_file():
            raise UserError(
                f"--script {text!r} names no file.",
                cause=f"there is no file {str(path)!r}",
                next_step="write the file and its arguments in one: --script 'train.py --epochs 1'",
            )
        name = re.sub(r"[^A-Za-z0-9]+", "-", path.stem).strip("-") or "script"
        taken = {each.name for each in tables} | set(project.known_scenarios())
        name = next(each for each in (name, *(f"{name}-{number}" for number in range(2, 1000))) if each not in taken)
        path = path.absolute()
        tables.append(
            Script(
                name=name,
                path=str(path),
                arguments=tuple(words[1:]),
                inputs=tuple(glob.escape(str(each)) for each in sorted(path.parent.glob("*.py")) if each.is_file()),
                directory=None if directory is None else str(directory.absolute()),
            )
        )
    return scripts.load_all(project.matrix_file, tables, project.known_scenarios())


def split(text: str) -> list[str]:
    """A script and its arguments as a shell reads them; UserError where a quotation does not end."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(
            f"--script {text!r} cannot be read.",
            cause=str(error),
            next_step="write the file and its arguments in one: --script 'train.py --epochs 1'",
        ) from error
