"""Pure: what moved between two locks, transitive packages too."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from harness.flips import place
from harness.observation import Frozen

if TYPE_CHECKING:
    from harness.model import Lock, LockedPackage


class PackageMove(Frozen, frozen=True):
    """A package that differs between two locks, or their Python."""

    name: str
    before: str | None
    """Its version in the baseline's lock; None where that does not have it."""
    after: str | None
    before_released: dt.date | None = None
    after_released: dt.date | None = None
    direct: bool = False
    """A stack asks for it by name; else it came with another package."""

    def __str__(self) -> str:
        return f"{self.name} {self.before or '(none)'} → {self.after or '(none)'}"


def packages_moved(baseline: Lock, candidate: Lock) -> tuple[PackageMove, ...]:
    """What differs: Python, then what a stack asks for by name, then the rest; torch and its companions first."""
    before, after = packages(baseline), packages(candidate)
    direct = asked_for(baseline) | asked_for(candidate)
    found = [
        moved(name, before.get(name), after.get(name), direct=name in direct)
        for name in before.keys() | after.keys()
        if version(before.get(name)) != version(after.get(name))
    ]
    found.sort(key=lambda each: (not each.direct, place(each.name), each.name))
    if baseline.python != candidate.python:
        python = PackageMove(name="python", before=baseline.python, after=candidate.python, direct=True)
        found.insert(0, python)
    return tuple(found)


def packages(lock: Lock) -> dict[str, LockedPackage]:
    """The packages of a lock by name."""
    return {package.name: package for package in lock.packages}


def version(package: LockedPackage | None) -> str | None:
    """Its version; None for none."""
    return package.version if package is not None else None


def moved(name: str, before: LockedPackage | None, after: LockedPackage | None, *, direct: bool) -> PackageMove:
    """A package that differs, with the days of its releases where the locks know them."""
    return PackageMove(
        name=name,
        before=version(before),
        after=version(after),
        before_released=before.released if before is not None else None,
        after_released=after.released if after is not None else None,
        direct=direct,
    )


def asked_for(lock: Lock) -> set[str]:
    """Names of the packages that the stack's requirements name; what is no name (a path, a URL) is left out."""
    names = set()
    for text in lock.requirements:
        try:
            names.add(str(canonicalize_name(Requirement(text).name)))
        except InvalidRequirement:
            continue
    return names
