"""The training scripts of somebody's project: which files are some, and what they need around them.

Files are read, never run.
"""

from __future__ import annotations

import ast
import glob
import os
import re
import shlex
import subprocess
import warnings
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from gradmatrix.core.errors import UserError
from gradmatrix.stacks.config import Script

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from gradmatrix.run.project import Project

LIBRARIES = frozenset(
    {"torch", "lightning", "pytorch_lightning", "transformers", "trl", "peft", "accelerate"}
)
"""The modules of which a training script imports one."""
MENTIONS = re.compile("|".join(sorted(LIBRARIES)).encode())
NAMED_SO = re.compile(r"train|tun(?:e|ing)|(?:^|_)(?:sft|dpo|grpo|ppo|fit)(?:_|$)", re.IGNORECASE)
"""The name of a script that trains with code of another module of its project."""
NOT_SCRIPTS = re.compile(r"(?:test_.*|.*_test|conftest|setup|noxfile)\.py")
NOT_FOLDERS = frozenset({"tests", "test", "build", "dist", "node_modules", "site-packages"})
LONGEST_NAME = 200
"""A longer string in a script is no name of a file."""


def training_scripts(root: Path) -> list[Path]:
    """The files below ``root`` that train when they are run, nearest to ``root`` first."""
    found = [path for path in python_files(root) if trains(path, root)]
    return sorted(found, key=lambda path: (len(path.relative_to(root).parts), path))


def python_files(root: Path) -> Iterator[Path]:
    """The Python files below ``root`` that can be scripts: those that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"]
    try:
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
        paths = {
            root / name for name in listed.decode(errors="surrogateescape").split("\0") if name
        }
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository
        paths = set(root.rglob("*.py"))
    environments = [path.parent for path in root.glob("*/pyvenv.cfg")]
    for path in paths:
        folders = path.relative_to(root).parts[:-1]
        hidden = any(name.startswith(".") or name in NOT_FOLDERS for name in folders)
        inside = any(path.is_relative_to(folder) for folder in environments)
        if path.is_file() and not (hidden or inside or NOT_SCRIPTS.fullmatch(path.name)):
            yield path


def trains(path: Path, root: Path) -> bool:
    """Whether a file is a script that trains, as far as its text tells.

    It does something when it is run. It calls ``backward``, ``fit`` or a trainer's ``train``, or it
    is named as a training script and imports modules of its project.
    """
    named_so = NAMED_SO.search(path.stem) is not None
    if not (named_so or MENTIONS.search(path.read_bytes())):
        return False  # without parsing: a project may have thousands of files
    tree = parsed(path)
    if tree is None or not runs(tree) or has_relative_import(tree):
        return False
    if not LIBRARIES.isdisjoint(imported(tree)) and any(map(is_training, ast.walk(tree))):
        return True
    return named_so and bool(package_folders(path, root))


def parsed(path: Path) -> ast.Module | None:
    """The syntax of a file; None if it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's text
            return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def runs(tree: ast.Module) -> bool:
    """Whether a module does more than define things: it has ``__main__`` or a call at its top."""
    for node in tree.body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return True
        if isinstance(node, (ast.For, ast.While, ast.With)):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return True
    return False


def has_relative_import(tree: ast.Module) -> bool:
    """Whether it is part of a package: such a file cannot be run by its path."""
    return any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


def is_training(node: ast.AST) -> bool:
    """Whether a piece of syntax is a call that trains."""
    if not isinstance(node, ast.Call):
        return False
    receiver, _, name = ast.unparse(node.func).rpartition(".")
    if name == "train":
        return "trainer" in receiver.lower()
    return name == "LightningCLI" or (name in ("backward", "fit") and bool(receiver))


def imported(tree: ast.Module) -> set[str]:
    """The first parts of the names of all modules that a file imports, anywhere in its code."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def package_folders(script: Path, root: Path) -> list[Path]:
    """The folders with the project's own packages and modules that a script imports."""
    tree = parsed(script)
    names = set() if tree is None else imported(tree)
    return [
        folder
        for folder in dict.fromkeys((script.parent, root, root / "src"))
        if any(
            (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
            for name in names
        )
    ]


SYNTAX = "write the file and its arguments as one word: --script 'train.py --epochs 1'"


def named(text: str) -> tuple[Path, tuple[str, ...]]:
    """The script that a user names, with its arguments as a shell reads them.

    Raises:
        UserError: if there is no such file, or a quotation does not end.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(
            f"--script {text!r} cannot be read.", cause=str(error), next_step=SYNTAX
        ) from error
    path = Path(os.path.expanduser(words[0] if words else ""))  # noqa: PTH111  (a ~ may be a name)
    if not path.is_file():
        raise UserError(
            f"--script {text!r} names no file.",
            cause=f"there is no file {str(path)!r}",
            next_step=SYNTAX,
        )
    return path.absolute(), tuple(words[1:])


def project_of(script: Path) -> Path:
    """The folder of the project that a script is part of; that of the script if there is none."""
    marks = ("pyproject.toml", "setup.py", ".git")
    with_mark = (each for each in script.parents if any((each / mark).exists() for mark in marks))
    return next(with_mark, script.parent)


def free_name(script: Path, taken: Collection[str]) -> str:
    """A name for a script, made of its file's name; with a number if that name is taken."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", script.stem).strip("-") or "script"
    known = {each.lower() for each in taken}
    numbered = (f"{name}-{number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each.lower() not in known)


def as_table(
    name: str,
    script: Path,
    arguments: tuple[str, ...],
    *,
    directory: str | None,
    packages: Iterable[str],
    project: Project,
) -> Script:
    """A script of the command line as a table of matrix.toml.

    The modules in its folder count as parts of it: it may import them. What lies in the project is
    named as seen from matrix.toml, so it is the same script in a copy of the project.
    """

    def named_there(path: str | Path) -> str:
        inside = Path(path).is_relative_to(project.root)
        return os.path.relpath(path, project.matrix_file.parent) if inside else str(path)

    modules = (each for each in sorted(script.parent.glob("*.py")) if each.is_file())
    return Script(
        name=name,
        path=named_there(script),
        arguments=arguments,
        inputs=tuple(glob.escape(named_there(each)) for each in modules),
        directory=None if directory is None else named_there(directory),
        packages=tuple(map(named_there, packages)),
    )


def files_named(script: Path, root: Path) -> list[Path]:
    """The files and folders that the strings of a script name, as seen from ``root``."""
    tree = parsed(script)
    texts = {
        node.value
        for node in ([] if tree is None else ast.walk(tree))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    usable = (text for text in texts if len(text) < LONGEST_NAME and text.isprintable())
    names = sorted(text for text in usable if text.strip("./ "))
    found = (root / name for name in names if not Path(name).is_absolute())
    return [path for path in found if ".." not in path.parts and path.exists()]
