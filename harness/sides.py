"""What a user names as one side of an upgrade: a stack, a lock, a file of requirements, or an environment."""

from __future__ import annotations

import contextlib
import difflib
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from harness import lock as locks
from harness import manifests, pylock, requirement_files
from harness.errors import UserError, without_credentials
from harness.given import Given, label, of_environment, without_label

if TYPE_CHECKING:
    from harness.model import Lock, Stack
    from harness.project import Project
    from harness.requirement_files import Listed

PYLOCK = re.compile(r"pylock(?:\.[\w-]+)?\.toml")
PATCHES = 100
"""Releases of one minor version of Python, at most."""
UNDERSTOOD = "a stack of matrix.toml, a lock, a requirements file, a pyproject.toml, or the folder of an environment"


@dataclass(frozen=True)
class Reading:
    """How files are read: the Python to resolve for where they leave it open, and parts of a pyproject.toml."""

    python: str | None = None
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


def side(word: str, project: Project, reading: Reading) -> Given:
    """The side that ``word`` names; UserError where it names none."""
    if word in {stack.name for stack in project.matrix.stacks}:
        return of_stack(project.matrix.stack(word), project)
    path = path_of(word)
    if path.is_dir():
        return of_folder(path, project, reading)
    if path.is_file():
        return of_file(path, project, reading)
    kind = "file or folder" if looks_like_a_path(word) else "stack, file or folder"
    raise UserError(
        f"There is no {kind} {without_credentials(word)!r}.",
        cause=meant(word, [stack.name for stack in project.matrix.stacks], path),
        next_step=f"name {UNDERSTOOD}",
    )


def path_of(word: str) -> Path:
    """A word as a path; a home that is nobody's stays as it is written."""
    with contextlib.suppress(RuntimeError):
        return Path(word).expanduser()
    return Path(word)


def has_parts(word: str) -> bool:
    """Whether a word names what has extras and dependency groups: a pyproject.toml, a uv.lock, or their folder."""
    path = path_of(word)
    if path.is_dir():
        return any((path / name).is_file() for name in ("uv.lock", "pyproject.toml"))
    return path.name == "uv.lock" or (path.suffix == ".toml" and not PYLOCK.fullmatch(path.name))


def looks_like_a_path(word: str) -> bool:
    """Whether nothing but a path is written like this."""
    return bool(re.search(r"[/\\]|^\.|^~|\.(?:txt|in|toml|json|lock|whl)$", word))


def meant(word: str, names: list[str], path: Path) -> str:
    """The nearest of these names and of what lies beside a path that is not there; else the names alone."""
    if "://" in word:
        return "an address is neither a file nor a folder of this machine"
    folder = path.parent
    beside = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    near = difflib.get_close_matches(word, [*names, *(str(folder / name) for name in beside)], n=1, cutoff=0.6)
    near = near or [str(folder / name) for name in difflib.get_close_matches(path.name, beside, n=1, cutoff=0.6)]
    if near:
        return f"perhaps you meant {near[0]!r}"
    return f"stacks are: {', '.join(names)}" if names else f"nothing like it lies in {folder}"


def of_stack(stack: Stack, project: Project) -> Given:
    """A stack of the matrix, with its lock where that is current."""
    known = locks.load(stack.name, project.locks_folder)
    lock = known if known is not None and locks.is_current(stack, known) else None
    folder = project.locks_folder
    return Given(
        name=stack.name,
        python=stack.python,
        as_of=lock.as_of if lock else stack.as_of,
        requirements=stack.requirements,
        asked=stack.requirements,
        preferred=preferred(lock, folder) if lock else "",
        lock=lock,
        locks=folder if lock else None,
    )


def preferred(lock: Lock, folder: Path) -> str:
    """The text of a lock; nothing of one that failed."""
    return "" if lock.failure else locks.requirements_path(lock.stack, folder).read_text(encoding="utf-8")


def of_folder(path: Path, project: Project, reading: Reading) -> Given:
    """The environment in a folder, or the project."""
    for name in ("bin/python", "Scripts/python.exe", "python.exe"):
        if (path / name).exists():
            return of_environment(path, project.settings().limits.threads)
    for name in ("uv.lock", "pylock.toml", "pyproject.toml", "requirements.txt"):
        if (path / name).is_file():
            return of_file(path / name, project, reading)
    raise UserError(
        f"{path} is neither an environment nor a project.",
        cause="it has no bin/python, uv.lock, pylock.toml, pyproject.toml or requirements.txt",
        next_step=f"name {UNDERSTOOD}",
    )


def of_file(path: Path, project: Project, reading: Reading) -> Given:
    """What a file holds, by its name; a lock of ours by either of its two files."""
    if path.suffix in (".json", ".txt") and (path.with_suffix(".json")).is_file():
        lock = lock_in(path)
        if lock is not None:
            return of_lock(lock, path.parent.resolve())
        if path.suffix == ".json":
            raise UserError(
                f"The lock {path.name} cannot be used.",
                cause=f"{path.stem}.txt is missing beside it, or belongs to another lock",
                next_step="copy both files of the lock",
            )
    if path.suffix == ".toml" or path.name == "uv.lock":
        return of_toml(path, project, reading)
    if path.suffix == ".whl":
        raise UserError(
            f"{path.name} is a wheel, and no side of its own.",
            cause="a wheel is one package: the candidate is the baseline with it",
            next_step=f"gradmatrix upgrade BASELINE --to {path}",
        )
    if is_interpreter(path):
        return of_environment(path, project.settings().limits.threads)
    if path.suffix in (".lock", ".yml", ".yaml", ".cfg", ".py", ".json"):
        raise UserError(
            f"{path.name} is of a kind that is not read.",
            cause="read are uv.lock, pylock.toml, pyproject.toml, requirements files and locks of this project",
            next_step="export it as a requirements file, such as poetry export or conda's pip list --format=freeze",
        )
    return of_listed(path, requirement_files.read(path), project, reading)


def lock_in(path: Path) -> Lock | None:
    """The lock that one of two files is part of; UserError where that was named and is none."""
    try:
        return locks.load(path.stem, path.parent)
    except UserError:
        if path.suffix == ".json":
            raise
        return None  # what lies beside a requirements file may be anything


def is_interpreter(path: Path) -> bool:
    """Whether a file is meant as a Python."""
    return bool(re.fullmatch(r"python[\d.]*(\.exe)?", path.name))


def of_toml(path: Path, project: Project, reading: Reading) -> Given:
    """A pyproject.toml, a uv.lock or a pylock.toml."""
    if path.name == "uv.lock":
        with tempfile.TemporaryDirectory() as scratch:
            found = manifests.uv_lock(path, reading.extras, reading.groups, Path(scratch))
    elif PYLOCK.fullmatch(path.name):
        found = pylock.pylock(path)
    else:
        found = manifests.pyproject(path, reading.extras, reading.groups)
    return of_listed(path, found, project, reading)


def of_lock(lock: Lock, folder: Path) -> Given:
    """A lock of this project's kind."""
    return Given(
        name=lock.stack,
        python=lock.python,
        as_of=lock.as_of,
        requirements=lock.requirements,
        asked=lock.requirements,
        preferred=preferred(lock, folder),
        lock=lock,
        locks=folder,
    )


def of_listed(path: Path, found: Listed, project: Project, reading: Reading) -> Given:
    """What a file asks for; a lock's versions are what came out, and may move in a candidate."""
    local = [each for each in map(Requirement, found.requirements) if label(each)]
    notices = [*found.notices]
    if local:
        names = ", ".join(sorted(f"{each.name}{each.specifier}" for each in local))
        notices.append(f"{path.name}: {names} is read without its local label: the index has no such release")
    requirements = tuple(map(without_label, found.requirements))
    return Given(
        name=path.name,
        python=python_for(path, found.requires_python, project, reading),
        as_of="today",
        requirements=requirements,
        asked=found.asked if found.locked else requirements,
        constraints=tuple(map(without_label, found.constraints)),
        preferred="\n".join(requirements) + "\n" if found.locked else "",
        notices=tuple(notices),
    )


def python_for(path: Path, requires: str, project: Project, reading: Reading) -> str:
    """The Python to resolve for: the one asked for, or else the newest of the matrix that will do."""
    known = sorted({stack.python for stack in project.matrix.stacks}, key=Version, reverse=True)
    try:
        allowed = SpecifierSet(requires)
    except InvalidSpecifier as error:
        raise UserError(
            f"{path.name} has requires-python = {requires!r}, which cannot be read.",
            cause=str(error),
            next_step='write it like requires-python = ">=3.11"',
        ) from error
    fits = [each for each in known if allows(allowed, each)]
    wanted = reading.python or (fits or known)[0]
    if not allows(allowed, wanted):
        raise UserError(
            f"{path.name} does not allow Python {wanted}.",
            cause=f"it has requires-python = {requires!r}",
            next_step="give --python a version that it allows, such as --python 3.12",
        )
    return wanted


def allows(allowed: SpecifierSet, minor: str) -> bool:
    """Whether any release of that minor version of Python will do."""
    return any(allowed.contains(f"{minor}.{patch}") for patch in range(PATCHES))
