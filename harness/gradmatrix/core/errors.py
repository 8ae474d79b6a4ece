"""Errors for users: what happened, the likely cause, what to do next.

The checks here are those of files that people write. Each imports what it needs: ``trace`` starts
the script after this module.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from packaging.requirements import Requirement


CREDENTIALS = re.compile(r"(?<!/)//[^/\s]*@")
"""In an address, up to the last @ before its path: a password may hold one."""


class UserError(Exception):
    """Bad input, or a machine that cannot do what was asked. ``cli`` prints it and exits with 2."""

    def __init__(self, what: str, *, cause: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.next_step = next_step

    def __reduce__(self) -> tuple[object, ...]:
        return UserError, (self.what,), vars(self)  # to another process

    def __str__(self) -> str:
        lines = [self.what]
        if self.cause:
            lines.append(f"  why:  {self.cause}")
        if self.next_step:
            lines.append(f"  next: {self.next_step}")
        return without_credentials("\n".join(lines))


def without_credentials(text: str) -> str:
    """``text`` without the user and the password of any address."""
    return CREDENTIALS.sub("//", text)


MOST_KNOWN = 30
"""More words are not listed: the next step of an error shows all."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence with the most similar known word, those that contain it, or the first ones."""
    import difflib

    from gradmatrix.core.text import few

    known = list(dict.fromkeys(known))
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6) or [
        each for each in known if word and word.lower() in each.lower()
    ]
    if near:
        return f"perhaps you meant {' or '.join(map(repr, near))}"
    return f"known are: {few(known, MOST_KNOWN)}" if known else "there is none yet"


SAFE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
PYTHON = re.compile(r"3\.\d{1,2}")


def check_name(path: Path, kind: str, name: str) -> None:
    """UserError if ``name`` cannot be a file name and a word on the command line."""
    if not SAFE_NAME.fullmatch(name):
        cause = (
            f"a {kind}'s name is a file name: letters, digits, '.', '_' and '-', "
            "with a letter or digit at both ends"
        )
        raise wrong(path, f"has the {kind} name {name!r}, which is unsafe", cause)


def check_python(path: Path, place: str, python: str) -> None:
    """UserError if ``python`` is no feature release; ``place`` is its table."""
    if not PYTHON.fullmatch(python):
        raise wrong(path, f"has python = {python!r} in {place}", fix='write it like "3.11"')


def read_requirement(text: str) -> Requirement:
    """The requirement that ``text`` is, in a form that can be written and read again.

    Raises:
        InvalidRequirement: if there is none: a string in a marker may hold what cannot be written,
            and a version more digits than Python reads
        TypeError: if ``text`` is not a string
    """
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        found = Requirement(str(Requirement(text)))
        hash(found.specifier)  # reads every version
        if found.marker is not None:
            with contextlib.suppress(UndefinedComparison, UndefinedEnvironmentName):
                found.marker.evaluate()  # reads those of the marker
    except InvalidRequirement:
        raise
    except ValueError as error:
        raise InvalidRequirement(str(error)) from error
    return found


def check_requirement(path: Path, place: str, text: str) -> None:
    """UserError if ``text`` is no requirement on a release; ``place`` is its table."""
    from packaging.requirements import InvalidRequirement

    try:
        requirement = read_requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise wrong(path, f"has the unreadable requirement {text!r} in {place}", reason) from error
    if requirement.url:
        cause = "a URL has no release date, so the stack would have no as-of date"
        raise wrong(path, f"has the requirement {text!r} in {place}, which is a URL", cause)


def check_build(path: Path, place: str, names: Iterable[str]) -> None:
    """UserError if one of ``names`` is no package's name; ``place`` is its table."""
    for name in names:
        if not SAFE_NAME.fullmatch(name):
            cause = 'it takes names of packages, without versions: build = ["lit"]'
            raise wrong(path, f"has {name!r} in the key 'build' of {place}", cause)


def check_unique(path: Path, kind: str, names: Iterable[str]) -> None:
    """UserError if two of ``names`` are the same."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:  # some file systems ignore case
            raise wrong(
                path,
                f"has two {kind}s called {name!r}",
                f"results are looked up by the {kind}'s name",
            )
        seen.add(name.lower())


def wrong(path: Path, what: str, cause: str = "", fix: str = "") -> UserError:
    """An error about a file: what is wrong in it, why, and what to write instead."""
    return UserError(
        f"{path.name} {what}.",
        cause=cause,
        next_step=f"{f'{fix},' if fix else f'correct {path.name}'} and run the command again",
    )


def refuse_unwritable(path: Path | None) -> None:
    """UserError if a file cannot be written at ``path``, before any work is done for it."""
    why = obstacle(path) if path is not None else ""
    if why:
        raise UserError(
            f"{path} cannot be written.",
            cause=why,
            next_step="name a file in a folder that exists and can be written to",
        )


def obstacle(path: Path) -> str:
    """Why a file cannot be written at ``path``, found by writing one beside it; empty if it can."""
    from tempfile import NamedTemporaryFile

    folder = path.absolute().parent
    try:
        if path.is_dir():
            return "it is a folder"
        if path.exists() and not path.is_file():
            return "it is not an ordinary file"
        if not folder.is_dir():
            return "its folder does not exist"
        with NamedTemporaryFile(dir=folder, prefix=f"{path.name}.", suffix=".partial"):
            return ""
    except OSError as error:
        return (error.strerror or str(error)).lower()
