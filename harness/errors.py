"""Errors that teach: what happened, the likely cause, the next command."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


CREDENTIALS = re.compile(r"(?<!/)//[^/\s]*@")
"""In an address, to the last @ before its path: a password may hold one."""


class UserError(Exception):
    """Bad input or a machine that cannot do what was asked; ``cli`` prints it and exits with 2."""

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
    """``text`` with the user and the password of every address taken out: for people to read."""
    return CREDENTIALS.sub("//", text)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence that offers the nearest known word, or lists them all."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"perhaps you meant {near[0]!r}" if near else f"known are: {', '.join(known)}"
