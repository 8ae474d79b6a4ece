"""What releases say about themselves: the headers of the METADATA files of installed packages.

They are kept, because a bisection deletes its environments.
"""

from __future__ import annotations

import re
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from gradmatrix.core.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from email.message import Message
    from pathlib import Path

    from gradmatrix.core.model import Lock

SAYS_WHAT_CHANGED = re.compile(
    r"change|release|history|news|source|repository|github", re.IGNORECASE
)
"""The labels of addresses that lead to what changed."""


def keep(environment: Path, folder: Path) -> None:
    """Keep the metadata of every package of an environment."""
    for path in environment.glob("[lL]ib/**/site-packages/*.dist-info/METADATA"):
        name, _, version = path.parent.name.removesuffix(".dist-info").rpartition("-")
        known = folder / f"{canonicalize_name(name)}-{version}"
        if not known.exists():
            headers, _, _ = path.read_text(encoding="utf-8", errors="replace").partition("\n\n")
            write_atomically(known, headers.encode())


def kept(folder: Path, lock: Lock) -> dict[str, str]:
    """What is kept of the packages of a lock, by the name of the file."""
    names = (f"{each.name}-{each.version}" for each in lock.packages)
    return {name: (folder / name).read_text("utf-8") for name in names if (folder / name).is_file()}


def take(found: Mapping[str, str], folder: Path) -> None:
    """Keep what another machine has kept."""
    for name, text in found.items():
        write_atomically(folder / name, text.encode())


def read(folder: Path, name: str, version: str) -> Message | None:
    """The metadata of a release; None if it was never kept."""
    path = folder / f"{name}-{version}"
    return HeaderParser().parsestr(path.read_text("utf-8")) if path.is_file() else None


def differing(
    before: Message, after: Message, ignored: Callable[[str], bool] = lambda _: False
) -> tuple[str, ...]:
    """What a release requires and the one before it did not, and the other way round.

    Extras and packages that are ``ignored`` are left out.
    """
    old, new = (
        [
            *(f"Python{each}" for each in of.get_all("Requires-Python") or []),
            *(
                each
                for each in of.get_all("Requires-Dist") or []
                if "extra ==" not in each and not ignored(name_of(each))
            ),
        ]
        for of in (before, after)
    )
    gone = [f"no longer requires {each}" for each in old if each not in new]
    return (*gone, *(f"requires {each}" for each in new if each not in old))


def name_of(requirement: str) -> str:
    """The package that a requirement is about."""
    found = re.match(r"[\w.-]+", requirement.strip())
    return canonicalize_name(found[0]) if found else ""


def links(of: Message) -> tuple[tuple[str, str], ...]:
    """The addresses at which a release says what changed, each with its label."""
    found = [
        (label.strip(), url.strip())
        for label, _, url in (each.partition(",") for each in of.get_all("Project-URL") or [])
    ]
    if of.get("Home-page"):
        found.append(("Homepage", of["Home-page"]))
    named = [each for each in found if SAYS_WHAT_CHANGED.search(each[0])]
    return tuple(named or found)
