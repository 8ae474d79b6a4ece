"""Errors that teach: what happened, the likely cause, the next command.

Also the checks of names, Pythons and requirements in files that people write.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


CREDENTIALS = re.compile(r"(?<!/)//[^/\s]*@")
"""In an address, up to the last @ before its path: a password may contain an @."""


class UserError(Exception):
    """Bad input, or a machine that cannot do what was asked; ``cli`` prints it and exits with 2."""

    def __init__(self, what: str, *, cause: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.next_step = next_step

    def __str__(self) -> str:
        lines = [self.what]
        if self.cause:
            lines.append(f"  why:  {self.cause}")
        if self.next_step:
            lines.append(f"  next: {self.next_step}")
        return without_credentials("\n".join(lines))


def without_credentials(text: str) -> str:
    """``text`` without the user and the password of its addresses."""
    return CREDENTIALS.sub("//", text)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A clause that offers the nearest known word, or lists them all."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"perhaps you meant {near[0]!r}" if near else f"known are: {', '.join(known)}"


SAFE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
PYTHON = re.compile(r"3\.\d{1,2}")


def check_name(path: Path, kind: str, name: str) -> None:
    """Raise UserError if ``name`` cannot be a file's name and a word of the command line."""
    if not SAFE_NAME.fullmatch(name):
        cause = f"a {kind}'s name is a file name: letters, digits, and '.', '_', '-' between them"
        raise wrong(path, f"has the {kind} name {name!r}, which is unsafe", cause)


def check_python(path: Path, place: str, python: str) -> None:
    """Raise UserError if ``python`` is no feature release; ``place`` is the table that has it."""
    if not PYTHON.fullmatch(python):
        raise wrong(path, f'has python = {python!r} in {place}: write it like "3.11"')


def check_requirement(path: Path, place: str, text: str) -> None:
    """Raise UserError if ``text`` is no requirement on a release; ``place`` is its table."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise wrong(path, f"has the unreadable requirement {text!r} in {place}", reason) from error
    if requirement.url:
        cause = "a file at a URL has no release date, so the stack would have no as-of date"
        raise wrong(path, f"has the requirement {text!r} in {place}, which is a URL", cause)


def check_unique(path: Path, kind: str, names: Iterable[str]) -> None:
    """Raise UserError if two of ``names`` are the same."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:  # some file systems ignore upper and lower case
            raise wrong(
                path,
                f"has two {kind}s called {name!r}",
                f"results are found by the {kind}'s name",
            )
        seen.add(name.lower())


def wrong(path: Path, what: str, cause: str = "") -> UserError:
    """An error in the file: what it has, and why that does not work."""
    return UserError(
        f"{path.name} {what}.", cause=cause, next_step=f"correct {path.name} and run again"
    )
