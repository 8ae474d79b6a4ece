"""A first matrix.toml for somebody's project: from what the project states, and its own scripts.

What is read are the files in which other tools keep requirements. The stacks are what the project
has (its lock, or its pins), the newest that it allows, and the oldest that it says to support.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from gradmatrix.compare.requirements import is_pin, unbound
from gradmatrix.compare.sides import (
    Reading,
    allowed_python,
    has_label,
    listed,
    without_label,
)
from gradmatrix.core.errors import PYTHON, UserError
from gradmatrix.core.model import SHOWN
from gradmatrix.core.text import listed as in_words
from gradmatrix.core.text import one_line
from gradmatrix.run import own_scripts

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from gradmatrix.compare.requirements import Listed

FILES = (
    "uv.lock", "poetry.lock", "pylock.toml", "pyproject.toml",
    "requirements.in", "requirements.txt", "requirements.lock",
)  # fmt: skip
"""Where projects state their requirements."""
FURTHER = ("requirements*.txt", "requirements/*.txt")
"""Where they do if there is none of ``FILES``."""
MOST_SCRIPTS = 8
"""The most scripts that become rows: each of them runs in each stack."""
LOWEST = {">=", "~="}
OTHER_MARKERS = re.compile(r"platform|os_name|implementation|extra")
"""What a marker has that is not about the version of Python alone."""


@dataclass(frozen=True)
class Stated:
    """What a project says that it needs."""

    files: tuple[str, ...]
    """The names of the files that were read."""
    bounds: tuple[str, ...]
    """Its requirements as a person wrote them; those of a lock without versions, if nobody did."""
    pins: tuple[str, ...]
    """What it has: these packages at the versions of its lock, or as it pins them. May be empty."""
    pinned_in: str
    """The name of the file with the pins."""
    requires_python: str
    notices: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A script of the project as a row of the matrix."""

    path: Path
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A stack of the new matrix, with a comment for its reader."""

    name: str
    comment: str
    summary: str
    as_of: str
    requirements: tuple[str, ...]
    core: bool = True


def stated(root: Path, named: Path | None, reading: Reading) -> Stated:
    """What the project in ``root`` states, or the file that the user ``named``.

    Raises:
        UserError: if nothing can be read
    """
    paths = files_of(root) if named is None else [named]
    found: dict[Path, Listed] = {}
    failures: list[UserError] = []
    for path in paths:
        try:
            found[path] = listed(path, reading)
        except UserError as error:
            if len(paths) == 1 or reading.extras or reading.groups:
                raise
            failures.append(error)
    if not found:
        if failures:
            raise failures[0]
        raise UserError(
            f"{root} states no requirements.",
            cause=f"it has none of {', '.join(FILES)}",
            next_step="run this in the folder of your project, or name the file: "
            "gradmatrix init FILE",
        )
    lock = next(((path, each) for path, each in found.items() if each.locked), None)
    hand = best({path: each for path, each in found.items() if not each.locked})
    used = [each for each in (hand, lock) if each is not None]
    notices = [f"not read: {error.what} {error.cause}" for error in failures]
    notices += [notice for _, each in used for notice in each.notices]
    bounds = hand[1].requirements if hand else used[0][1].asked
    bounds = releases(with_constraints(bounds, used[0][1].constraints), notices)
    if lock is not None:
        names = {*map(name_of, bounds), *SHOWN}
        locked = releases(lock[1].requirements, notices)
        pins = tuple(text for text in locked if name_of(text) in names)
    else:
        pins = bounds if any(is_pin(Requirement(text)) for text in bounds) else ()
    files = tuple(relative(path, root) for path, _ in used)
    return Stated(
        files=files,
        bounds=with_torch(bounds),
        pins=with_torch(pins) if pins else (),
        pinned_in=files[-1] if lock is not None else files[0],
        requires_python=next(
            (each.requires_python for _, each in used if each.requires_python), ""
        ),
        notices=tuple(dict.fromkeys(notices)),
    )


def files_of(root: Path) -> list[Path]:
    """The files of ``root`` that may state its requirements."""
    there = [root / name for name in FILES if (root / name).is_file()]
    return there or [path for pattern in FURTHER for path in sorted(root.glob(pattern))]


def best(found: dict[Path, Listed]) -> tuple[Path, Listed] | None:
    """The first file that asks for a library to train with, or else the first one."""
    libraries = {name.replace("_", "-") for name in own_scripts.LIBRARIES}
    asking = (
        (path, each)
        for path, each in found.items()
        if not libraries.isdisjoint(map(name_of, each.requirements))
    )
    return next(asking, next(iter(found.items()), None))


def name_of(text: str) -> str:
    """The canonical name of the package that is required."""
    return str(canonicalize_name(Requirement(text).name))


def with_constraints(bounds: Sequence[str], constraints: Iterable[str]) -> tuple[str, ...]:
    """The requirements, and the constraints on the same packages."""
    names = set(map(name_of, bounds))
    return (*bounds, *(text for text in constraints if name_of(text) in names))


def releases(texts: Iterable[str], notices: list[str]) -> tuple[str, ...]:
    """The requirements on releases of the package index, without labels of builds.

    ``notices`` gets a sentence for each of the others: a stack has the releases of a day.
    """
    found = []
    for text in texts:
        if Requirement(text).url:
            notices.append(f"{name_of(text)} is left out: it is no release of the package index")
        else:
            found.append(without_label(text) if has_label(Requirement(text)) else text)
    return tuple(found)


def with_torch(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The requirements, and torch if it is not among them: nothing is observed without it."""
    return texts if "torch" in map(name_of, texts) else (*texts, "torch")


def python_for(given: Stated, root: Path, asked: str | None) -> str:
    """The Python of the stacks: what was asked for, what the project pins, or this one if allowed.

    Raises:
        UserError: if the project does not allow it
    """
    file = root / ".python-version"
    pinned = PYTHON.match(file.read_text(encoding="utf-8")) if file.is_file() else None
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    preferred = [pinned[0], here] if pinned else [here]
    return allowed_python(given.files[0], given.requires_python, asked, preferred)


def columns(given: Stated, python: str, today: dt.date) -> list[Column]:
    """The stacks of the new matrix, on this Python."""
    pins, bounds = on_python(given.pins, python), on_python(given.bounds, python)
    found = []
    if pins:
        found.append(
            Column(
                "pinned",
                f"What you have: the versions of {given.pinned_in}. All other packages are as of "
                "this day.",
                f"the versions of {given.pinned_in}",
                str(today),
                tuple(map(str, pins)),
            )
        )
    found.append(
        Column(
            "latest",
            "What a new user gets: the newest releases that the project allows. `gradmatrix lock "
            "latest` moves it to today.",
            "what a plain install gives today",
            '"today"',
            tuple(unbound(each) if is_pin(each) else str(each) for each in bounds),
        )
    )
    oldest = tuple(map(lowest, bounds))
    if oldest != tuple(map(str, bounds)):
        found.append(
            Column(
                "oldest",
                "What you say to support: the lowest versions of the requirements. It is not core: "
                "`gradmatrix run --all` and the workflow run it.",
                "the lowest versions that the project allows",
                '"today"',
                oldest,
                core=False,
            )
        )
    return found


def on_python(texts: Iterable[str], python: str) -> list[Requirement]:
    """The requirements that hold on this Python; a marker that is only about it is left out."""
    found = []
    for each in map(Requirement, texts):
        if each.marker is not None and not OTHER_MARKERS.search(str(each.marker)):
            of_python = {"python_version": python, "python_full_version": f"{python}.0"}
            if not each.marker.evaluate(of_python):
                continue
            each.marker = None
        found.append(each)
    return found


def lowest(requirement: Requirement) -> str:
    """The requirement at its lowest version: ``>=2.5`` becomes ``==2.5.*``.

    One without a lowest version, or with a single version, stays as it is.
    """
    bounds = [each.version for each in requirement.specifier if each.operator in LOWEST]
    if is_pin(requirement) or not bounds:
        return str(requirement)
    parts = bounds[0].split(".")
    exact = bounds[0] if len(parts) > 2 else ".".join([*parts, "0"][:2]) + ".*"  # noqa: PLR2004
    found = Requirement(unbound(requirement))
    found.specifier = SpecifierSet(f"=={exact}")
    return str(found)


def matrix_text(
    given: Stated,
    columns: Sequence[Column],
    rows: Sequence[Row],
    root: Path,
    *,
    python: str,
    devices: Sequence[str],
    taken: Collection[str],
    left: Sequence[Path] = (),
) -> str:
    """The new matrix.toml.

    Args:
        given: what the project states
        columns: its stacks
        rows: its scripts
        root: its folder, in which matrix.toml will be
        python: the Python of the stacks
        devices: where cells run
        taken: names that a script cannot have
        left: further scripts, which become a comment
    """
    lines = [
        "# What `gradmatrix run` runs: each script below, in each stack below, on each device.",
        *comment(
            f"Written by `gradmatrix init` from {in_words(given.files)}. Change it as you like: "
            "nothing writes it again. An unknown key is an error that suggests the right one."
        ),
        "",
        "[run]",
        f"devices = {array(devices)}      # cpu, cuda; a device that a machine lacks is no failure",
        'scenarios = []         # scenarios of gradmatrix to run too, such as "t5_classifier"',
        "timeout_s = 600        # for a cell: one script in one stack on one device",
        "memory_gb = 16         # for a cell, main memory",
        "threads = 1            # for a cell; with one, steps per second compare best",
        "",
        "[steps]                # a script is stopped after these optimizer steps, in this order",
        "audit = 4              # the gradient and the update of every parameter are checked",
        "warmup = 4             # nothing is checked or timed",
        "timed = 12             # steps per second",
        "",
        *comment(
            "Stacks: the columns of the table. Each is locked once, into results/locks/, and "
            "installed into an environment of its own in .gradmatrix/."
        ),
    ]
    for column in columns:
        lines += ["", *column_lines(column, python)]
    lines += [
        "",
        "# Scripts: the rows of the table. They run unchanged, without network, and see no token.",
    ]
    for row in rows:
        name = own_scripts.free_name(row.path, taken)
        taken = [*taken, name]
        lines += ["", *row_lines(row, name, root)]
    if left:
        names = ", ".join(path.relative_to(root).as_posix() for path in left)
        lines += ["", *comment(f"Further scripts that seem to train: {names}")]
    return "\n".join(lines) + "\n"


def column_lines(column: Column, python: str) -> Iterator[str]:
    """A [[stacks]] table."""
    yield from comment(column.comment)
    yield "[[stacks]]"
    yield f"name = {quoted(column.name)}"
    yield f"summary = {quoted(column.summary)}"
    yield f"python = {quoted(python)}"
    yield f"as_of = {column.as_of}"
    if column.core:
        yield "core = true            # `gradmatrix run` without a name runs it"
    yield "requirements = ["
    yield from (f"    {quoted(text)}," for text in column.requirements)
    yield "]"


def row_lines(row: Row, name: str, root: Path) -> Iterator[str]:
    """A [[scripts]] table."""
    yield "[[scripts]]"
    yield f"name = {quoted(name)}"
    yield f"path = {quoted(row.path.relative_to(root).as_posix())}"
    if summary := summary_of(row.path):
        yield f"summary = {quoted(summary)}"
    if row.arguments:
        yield f"arguments = {array(row.arguments)}"
    else:
        yield '# arguments = ["--epochs", "1"]  # what you write behind its name'
    folders = [relative(path, root) for path in own_scripts.package_folders(row.path, root)]
    if folders:
        yield f"packages = {array(folders)}  # folders with modules of yours that it imports"
    files = own_scripts.files_named(row.path, root)
    if files:
        yield 'directory = "."  # it names files of this folder; else it runs in an empty one'
    inputs = [relative(path, root) for path in files if path.is_file()]
    if inputs:
        yield f"inputs = {array(inputs)}  # if one of these changes, it runs again"


def relative(path: Path, root: Path) -> str:
    """A path as seen from ``root``."""
    return path.relative_to(root).as_posix()


def summary_of(script: Path) -> str:
    """The first line of a script's docstring."""
    tree = own_scripts.parsed(script)
    text = ast.get_docstring(tree) if tree is not None else None
    return one_line(text.strip().splitlines()[0]).rstrip(".") if text and text.strip() else ""


def comment(text: str) -> list[str]:
    """Lines of comment, none too wide."""
    return wrap(text, 100, initial_indent="# ", subsequent_indent="# ", break_long_words=False)


def quoted(text: str) -> str:
    """A string of TOML. A JSON string is one, but for the character that JSON does not escape."""
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def array(texts: Iterable[str]) -> str:
    """An array of strings of TOML."""
    return f"[{', '.join(map(quoted, texts))}]"
