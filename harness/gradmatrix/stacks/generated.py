"""The stacks that rules gave when the index was read last: a committed file beside the locks, written by ``refresh``.

Reading matrix.toml touches no network, so what [generate.releases] and [generate.window] ask for is looked up here. An
entry holds all that was asked: where a rule or its base has changed since, there is none, and ``refresh`` must run.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import write_atomically
from gradmatrix.core.model import Stack
from gradmatrix.core.observation import Frozen
from gradmatrix.stacks.generate import (
    TWINS,
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gradmatrix.stacks.config import Matrix
    from gradmatrix.stacks.generate import Placed
    from gradmatrix.stacks.index import Release

COMMAND = "gradmatrix refresh"


class _Stack(Frozen, frozen=True):
    """A Stack as it is written: msgspec allows no union of a date and a word when it reads."""

    name: str
    python: str
    requirements: tuple[str, ...]
    as_of: str
    core: bool
    summary: str


class Entry(Frozen, frozen=True):
    """What one rule gave."""

    asked: dict[str, Any]
    stacks: tuple[_Stack, ...]

    def as_stacks(self) -> Iterator[Stack]:
        """Its stacks, as everything else knows them; ValueError for a date that is none."""
        for entry in self.stacks:
            as_of = entry.as_of if entry.as_of == "today" else dt.date.fromisoformat(entry.as_of)
            yield Stack(**{**msgspec.structs.asdict(entry), "as_of": as_of})


class Generated(Frozen, frozen=True):
    """The file."""

    schema: Literal[1] = 1
    entries: tuple[Entry, ...] = ()

    def of(self, placed: Placed) -> tuple[Stack, ...] | None:
        """The stacks of ``placed``; None where it was another rule, or there was none."""
        asked = placed.asked()
        return next(
            (tuple(entry.as_stacks()) for entry in self.entries if entry.asked == asked), None
        )


def path_in(folder: Path, matrix_file: Path, root: Path) -> Path:
    """Where the stacks of ``matrix_file`` are kept; no stack has a name like that, so no lock has it.

    A file of another folder has one of its own: it must not take the place of this checkout's.
    """
    if matrix_file.parent == root:
        return folder / f"_{matrix_file.stem}.json"
    place = matrix_file.relative_to(root) if matrix_file.is_relative_to(root) else matrix_file
    return (
        folder
        / f"_{matrix_file.stem}-{hashlib.sha256(place.as_posix().encode()).hexdigest()[:8]}.json"
    )


def load(path: Path) -> Generated:
    """The file at ``path``, empty where there is none; UserError where it is damaged."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Generated)
        for entry in found.entries:
            tuple(entry.as_stacks())
    except FileNotFoundError:
        return Generated()
    except (msgspec.MsgspecError, ValueError) as error:
        raise UserError(
            f"The generated stacks in {path.name} cannot be read: {error}.",
            cause="the file was edited by hand, or written by another release",
            next_step=f"delete {path.name}, then {COMMAND}",
        ) from error
    return found


def write(path: Path, given: Mapping[Placed, Sequence[Stack]]) -> bool:
    """Write what each rule gave; whether that is something else than before. Without any rule there is no file."""
    entries = tuple(
        Entry(
            asked=placed.asked(),
            stacks=tuple(msgspec.convert(msgspec.to_builtins(stack), _Stack) for stack in stacks),
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
    """The packages whose releases ``placed`` needs."""
    rule = placed.rule
    if isinstance(rule, Releases):
        return (rule.name, *_twin(placed))
    return needed(rule) if isinstance(rule, Window) else ()


def _twin(placed: Placed) -> tuple[str, ...]:
    """The other name of the rule's package, where its base asks for both."""
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
    """The stacks of ``placed``, a rule that needs the index."""
    rule = placed.rule
    if isinstance(rule, Releases) and placed.base is not None:
        there: Sequence[Release] = releases[rule.name]
        for twin in _twin(placed):
            there = both(there, releases[twin])
        over = [
            release for release in there if release.uploaded is None or release.uploaded < today
        ]  # a day is whole
        return over_base(rule, placed.base, over)
    return window(rule, releases, today) if isinstance(rule, Window) else ()


def complete(matrix: Matrix, path: Path, matrix_file: Path) -> Matrix:
    """``matrix`` with the stacks of all of its rules; UserError where those in ``path`` are not of these rules."""
    known = load(path) if asking(matrix) else Generated()
    missing = [placed.place for placed in asking(matrix) if known.of(placed) is None]
    if missing:
        raise UserError(
            f"What {missing[0]} of {matrix_file.name} gives is not known.",
            cause="its stacks come from the package index, which has not been read since the table or its base changed",
            next_step=COMMAND,
        )
    return _joined(matrix, known, matrix_file)


def kept(path: Path) -> Generated:
    """What is in the file at ``path``; nothing where it is damaged: ``refresh`` writes it anew."""
    try:
        return load(path)
    except UserError:
        return Generated()


def as_far_as_known(matrix: Matrix, path: Path, matrix_file: Path) -> Matrix:
    """``matrix`` with those stacks of its rules that are known: for what must work before ``refresh`` does."""
    return _joined(matrix, kept(path), matrix_file)


def _joined(matrix: Matrix, known: Generated, matrix_file: Path) -> Matrix:
    given = ((placed.place, stack) for placed in asking(matrix) for stack in known.of(placed) or ())
    return msgspec.structs.replace(matrix, stacks=joined(matrix_file, matrix.stacks, given))


def differing(before: Iterable[Stack], after: Iterable[Stack]) -> tuple[list[Stack], list[Stack]]:
    """The stacks that came, and those that went; one that changed did both."""
    before, after = tuple(before), tuple(after)
    return [stack for stack in after if stack not in before], [
        stack for stack in before if stack not in after
    ]
