"""The stacks that rules gave when the package index was last read.

They are in a committed file beside the locks, which ``refresh`` writes, so that reading matrix.toml
needs no network. An entry holds the rule and its base: if either has changed, ``refresh`` must run.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import NOT_READABLE, write_atomically
from gradmatrix.core.model import Stack
from gradmatrix.core.observation import Frozen
from gradmatrix.stacks.generate import (
    TWINS,
    Pairwise,
    Releases,
    Snapshots,
    Window,
    joined,
    names_of,
    needed,
    over_base,
    window,
)
from gradmatrix.stacks.index import both
from gradmatrix.stacks.pairwise import Array, Chosen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gradmatrix.stacks.config import Matrix
    from gradmatrix.stacks.generate import Placed
    from gradmatrix.stacks.index import Release

COMMAND = "gradmatrix refresh"


class _Stack(Frozen, frozen=True):
    """A Stack as it is written: msgspec reads no union of a date and a word."""

    name: str
    python: str
    requirements: tuple[str, ...]
    as_of: str
    core: bool
    summary: str
    build: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    prereleases: bool = False


class Entry(Frozen, frozen=True):
    """What one rule gave."""

    asked: dict[str, Any]
    stacks: tuple[_Stack, ...]
    array: Array | None = None
    """What is known about the combinations of a [generate.pairwise] table."""

    def as_stacks(self) -> Iterator[Stack]:
        """Its stacks; ValueError if a date is not valid."""
        for entry in self.stacks:
            as_of = entry.as_of if entry.as_of == "today" else dt.date.fromisoformat(entry.as_of)
            yield Stack(**{**msgspec.structs.asdict(entry), "as_of": as_of})


class Generated(Frozen, frozen=True):
    """The file."""

    schema: Literal[1] = 1
    entries: tuple[Entry, ...] = ()

    def of(self, placed: Placed) -> tuple[Stack, ...] | None:
        """The stacks of ``placed``; None if the file does not have this rule."""
        asked = placed.asked()
        return next(
            (tuple(entry.as_stacks()) for entry in self.entries if entry.asked == asked), None
        )


def path_in(folder: Path, matrix_file: Path, root: Path) -> Path:
    """The file for the stacks of ``matrix_file``. No lock can have the same name.

    A matrix file in another folder than ``root`` gets a file with a digest in its name.
    """
    if matrix_file.parent == root:
        return folder / f"_{matrix_file.stem}.json"
    place = matrix_file.relative_to(root) if matrix_file.is_relative_to(root) else matrix_file
    return (
        folder
        / f"_{matrix_file.stem}-{hashlib.sha256(place.as_posix().encode()).hexdigest()[:8]}.json"
    )


def load(path: Path) -> Generated:
    """The file at ``path``; empty if there is none. UserError if it is damaged."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Generated)
        for entry in found.entries:
            tuple(entry.as_stacks())
    except FileNotFoundError:
        return Generated()
    except (*NOT_READABLE, ValueError) as error:
        raise UserError(
            f"The generated stacks in {path.name} cannot be read: {error}.",
            cause="the file was edited by hand, or written by another release",
            next_step=f"delete {path.name}, then {COMMAND}",
        ) from error
    return found


def write(
    path: Path,
    given: Mapping[Placed, Sequence[Stack]],
    arrays: Mapping[Placed, Array] = MappingProxyType({}),
) -> bool:
    """Write what each rule gave; return whether the file changed. It is deleted without rules."""
    entries = tuple(
        Entry(
            asked=placed.asked(),
            stacks=tuple(msgspec.convert(msgspec.to_builtins(stack), _Stack) for stack in stacks),
            array=arrays.get(placed),
        )
        for placed, stacks in given.items()
    )
    content = msgspec.json.format(msgspec.json.encode(Generated(entries=entries)), indent=2) + b"\n"
    before = path.read_bytes() if path.exists() else b""
    if not entries:
        path.unlink(missing_ok=True)
        return bool(before)
    write_atomically(path, content)
    return before != content


def asking(matrix: Matrix) -> tuple[Placed, ...]:
    """The rules of ``matrix`` that need the index."""
    return tuple(placed for placed in matrix.rules if not isinstance(placed.rule, Snapshots))


def packages_of(placed: Placed) -> tuple[str, ...]:
    """The packages whose releases a rule needs."""
    rule = placed.rule
    if isinstance(rule, Releases):
        return (rule.name, *_twin(placed))
    if isinstance(rule, Pairwise):
        return tuple(dict.fromkeys((*rule.by_name, *names_of(rule.requirements))))
    return needed(rule) if isinstance(rule, Window) else ()


def chosen_in(path: Path) -> tuple[Chosen, ...]:
    """What the file at ``path`` has of [generate.pairwise] tables."""
    return tuple(
        Chosen(tuple(entry.as_stacks()), entry.array)
        for entry in kept(path).entries
        if entry.array is not None
    )


def _twin(placed: Placed) -> tuple[str, ...]:
    """The twin of the rule's package, if its base asks for both."""
    if (
        not isinstance(placed.rule, Releases)
        or placed.base is None
        or placed.rule.name not in TWINS
    ):
        return ()
    twin = TWINS[placed.rule.name]
    return (twin,) if twin in names_of(placed.base.requirements) else ()


def given_by(
    placed: Placed, releases: Mapping[str, Sequence[Release]], today: dt.date
) -> tuple[Stack, ...]:
    """The stacks of a rule that needs the index."""
    rule = placed.rule
    if isinstance(rule, Releases) and placed.base is not None:
        there: Sequence[Release] = releases[rule.name]
        for twin in _twin(placed):
            there = both(there, releases[twin])
        before = [each for each in there if each.uploaded is None or each.uploaded < today]
        return over_base(rule, placed.base, before)
    return window(rule, releases, today) if isinstance(rule, Window) else ()


def complete(matrix: Matrix, path: Path, matrix_file: Path) -> Matrix:
    """``matrix`` with the stacks of all its rules; UserError if ``path`` does not have them."""
    known = load(path) if asking(matrix) else Generated()
    missing = [placed.place for placed in asking(matrix) if known.of(placed) is None]
    if missing:
        raise UserError(
            f"The stacks of {missing[0]} in {matrix_file.name} are not known.",
            cause="the package index was not read since the table, or its base, changed",
            next_step=COMMAND,
        )
    return _joined(matrix, known, matrix_file)


def kept(path: Path) -> Generated:
    """The file at ``path``; empty if it is damaged, since ``refresh`` writes it again."""
    try:
        return load(path)
    except UserError:
        return Generated()


def as_far_as_known(matrix: Matrix, path: Path, matrix_file: Path) -> Matrix:
    """``matrix`` with the known stacks of its rules, for commands that work before ``refresh``."""
    return _joined(matrix, kept(path), matrix_file)


def _joined(matrix: Matrix, known: Generated, matrix_file: Path) -> Matrix:
    given = ((placed.place, stack) for placed in asking(matrix) for stack in known.of(placed) or ())
    return msgspec.structs.replace(matrix, stacks=joined(matrix_file, matrix.stacks, given))


def differing(before: Iterable[Stack], after: Iterable[Stack]) -> tuple[list[Stack], list[Stack]]:
    """The stacks that were added, and those that were removed. A changed one is in both."""
    before, after = tuple(before), tuple(after)
    return [stack for stack in after if stack not in before], [
        stack for stack in before if stack not in after
    ]
