"""``init``: begin a matrix in the folder of somebody's project."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from gradmatrix.cli.commands import EXTRA
from gradmatrix.cli.main import installed_as, is_missing
from gradmatrix.compare import first_matrix
from gradmatrix.compare.first_matrix import MOST_SCRIPTS, Row, relative
from gradmatrix.compare.sides import Reading
from gradmatrix.core.errors import UserError
from gradmatrix.core.files import write_atomically
from gradmatrix.core.text import counted, plain
from gradmatrix.run import own_scripts
from gradmatrix.run.project import MATRIX_FILE
from gradmatrix.stacks.config import DEVICES
from gradmatrix.stacks.environment import has_driver

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from gradmatrix.run.project import Project

WORKFLOW = ".github/workflows/gradmatrix.yml"
TEMPLATE = Path(first_matrix.__file__).with_name("workflow.yml")
UNPINNED = '"gradmatrix[matrix]"'
"""What the template of the workflow installs."""
IGNORED = (".gradmatrix/", "results/local/")
"""What a run leaves behind and nobody commits."""


def init_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Write a matrix.toml, a workflow and two lines of .gitignore."""
    root = (options.root or Path.cwd()).resolve()
    above = repository(root)
    workflow = not options.no_workflow and above in (None, root)
    refuse_existing(root, [MATRIX_FILE, *([WORKFLOW] if workflow else [])])
    reading = Reading(options.python, tuple(options.extra), tuple(options.group))
    file = None if options.file is None else given_file(options.file, root)
    stated = first_matrix.stated(root, file, reading)
    python = first_matrix.python_for(stated, root, options.python)
    columns = first_matrix.columns(stated, python, dt.datetime.now(dt.UTC).date())
    rows, left = chosen_scripts(options.script, root)
    text = first_matrix.matrix_text(
        stated,
        columns,
        rows,
        root,
        python=python,
        devices=DEVICES if has_driver() else DEVICES[:1],
        taken=project.scenarios,
        left=left,
    )
    write_atomically(root / MATRIX_FILE, text.encode())
    stacks = f"{counted(len(columns), 'stack')} ({', '.join(each.name for each in columns)})"
    lines = [
        f"read     {', '.join(stated.files)}",
        *(f"script   {' '.join([relative(row.path, root), *row.arguments])}" for row in rows),
        f"written  {MATRIX_FILE}: {stacks}, {counted(len(rows), 'script')}",
    ]
    if workflow:
        template = TEMPLATE.read_text(encoding="utf-8")
        content = template.replace(UNPINNED, json.dumps(installed_as(elsewhere=True)))
        write_atomically(root / WORKFLOW, content.encode())
        lines.append(f"written  {WORKFLOW}: every night; it commits the tables to results/")
    if ignore(root / ".gitignore"):
        lines.append(f"written  .gitignore: {' and '.join(IGNORED)}")
    lines += [f"note: {each}" for each in stated.notices]
    if left:
        lines.append(
            f"note: {counted(len(left), 'further script')} stand at the end of {MATRIX_FILE}"
        )
    if workflow:
        lines.append(
            f"note: the workflow installs {installed_as(elsewhere=True)}; if GitHub cannot get "
            "that, change GRADMATRIX in it first, for example to: gradmatrix[matrix] @ "
            "git+REPOSITORY@COMMIT"
        )
    elif not options.no_workflow:
        lines.append(f"note: no workflow was written: GitHub reads workflows in {above} only")
    if (root / "results").exists():
        lines.append("note: results/ exists already; locks, tables and pages are added to it")
    if any(map(is_missing, EXTRA)):
        lines.append(f'note: run needs the extra `matrix`: pip install "{installed_as()}"')
    lines.append("next: look through matrix.toml, then: gradmatrix run")
    for line in lines:
        console.print(Text(plain(line)), soft_wrap=True)
    return 0


def refuse_existing(root: Path, names: list[str]) -> None:
    """UserError if one of the files exists: nothing of the user's is overwritten."""
    for name in names:
        if (root / name).exists():
            raise UserError(
                f"{name} exists already; nothing was written.",
                cause="init begins a matrix and overwrites no file",
                next_step="gradmatrix run runs it; delete it first to begin anew"
                if name == MATRIX_FILE
                else "delete it first, or give --no-workflow",
            )


def given_file(file: Path, root: Path) -> Path:
    """The file that the user named; UserError if the project in ``root`` has no such file."""
    path = file.absolute()
    if not (path.is_file() and path.is_relative_to(root)):
        raise UserError(
            f"There is no file {file} in {root}.",
            cause="the requirements are read from a file of the project",
            next_step="name another file, or none: then what is there is found",
        )
    return path


def chosen_scripts(named: list[str], root: Path) -> tuple[list[Row], list[Path]]:
    """The scripts that become rows, and those that are left out.

    Raises:
        UserError: if there is none, or a named one is not part of the project.
    """
    if named:
        rows = [Row(*own_scripts.named(text)) for text in named]
        for row in rows:
            if not row.path.resolve().is_relative_to(root):
                raise UserError(
                    f"{row.path} is not in {root}.",
                    cause="matrix.toml names scripts from its own folder",
                    next_step="run this in the folder that holds the script, or give --root DIR",
                )
        return rows, []
    found = own_scripts.training_scripts(root)
    if not found:
        raise UserError(
            f"No training script was found in {root}.",
            cause="no Python file there imports torch or a library on it, and calls backward, fit "
            "or a trainer's train when it is run",
            next_step="name one: gradmatrix init --script 'train.py --epochs 1'",
        )
    return [Row(path) for path in found[:MOST_SCRIPTS]], found[MOST_SCRIPTS:]


def repository(root: Path) -> Path | None:
    """The root of the git repository that a folder lies in."""
    command = ["git", "rev-parse", "--show-toplevel"]
    try:
        found = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return Path(found.strip()).resolve()


def ignore(path: Path) -> bool:
    """Add to a .gitignore what nobody commits; return whether anything was missing."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    missing = [line for line in IGNORED if line not in text.splitlines()]
    if missing:
        start = f"{text}\n" if text and not text.endswith("\n") else text
        write_atomically(path, "\n".join([f"{start}# gradmatrix", *missing, ""]).encode())
    return bool(missing)
