"""Stacks that nobody types: a rule of matrix.toml, the index's releases and a day → stacks. A function of values."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from harness import periods
from harness.model import Stack
from harness.observation import Frozen
from harness.releases import Release, admitted, minor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

REQUIREMENTS = ("torch", "lightning", "pytorch-lightning", "transformers", "peft", "trl")
"""What a stack asks for whose rule does not say."""
PYTHON = "3.11"
TWINS = {"lightning": "pytorch-lightning", "pytorch-lightning": "lightning"}
"""One project under two import names: where a stack asks for both, they have the same version."""

Requirements = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
Several = Annotated[int, msgspec.Meta(ge=1, le=1200)]
"""Months or quarters: no calendar goes on for ever."""


class Snapshots(Frozen, frozen=True, kw_only=True):
    """[generate.snapshots]: what a plain install gave on the last day of every period."""

    every: periods.Every
    since: dt.date = msgspec.field(name="from")
    until: dt.date | None = None
    requirements: Requirements = REQUIREMENTS
    python: str = PYTHON
    prefix: str = "snapshot"
    core: bool = False


class Releases(Frozen, frozen=True, kw_only=True):
    """[generate.releases]: a stack for every release of one package, over the requirements of another stack."""

    package: str
    base: str
    which: Literal["all", "last-patch"] = "last-patch"
    since: Any = msgspec.field(name="from", default=None)
    """The first release, by its version (text) or its day (a date)."""
    until: Any = None
    prereleases: bool = False
    exactly: tuple[str, ...] = ()
    """Releases that are taken whatever they are: yanked, pre-releases, of another patch, out of bounds."""
    prefix: str = ""
    core: bool = False

    @property
    def name(self) -> str:
        """The package, as an index knows it."""
        return canonicalize_name(self.package)


class Window(Frozen, frozen=True, kw_only=True):
    """[generate.window]: the ends of SPEC 0's support window, quarter by quarter; see ``window.py``."""

    requirements: Requirements = REQUIREMENTS
    months: Several = 24
    python_months: Several = 36
    python: str | None = None
    """None: the oldest that the window holds."""
    quarters: Several = 1
    """How many floors: that of this quarter, and those of the quarters to come."""
    each: bool = False
    """Whether each package gets a stack in which it alone is as old as the window allows."""
    prefix: str = "window"
    core: bool = False


def snapshots(rule: Snapshots, today: dt.date) -> tuple[Stack, ...]:
    """A stack for every period that ended before ``today``; no index is asked."""
    last = today - dt.timedelta(days=1)
    until = min(rule.until or last, last)
    return tuple(
        Stack(
            name=f"{rule.prefix}-{day}",
            python=rule.python,
            requirements=rule.requirements,
            as_of=day,
            core=rule.core,
            summary=f"What a plain install gave on {day}",
        )
        for day in periods.ends(rule.every, rule.since, until)
    )


def over_base(rule: Releases, base: Stack, releases: Iterable[Release]) -> tuple[Stack, ...]:
    """``base`` with each wanted release of the rule's package in turn, oldest version first."""
    return tuple(
        Stack(
            name=safe_name(f"{rule.prefix or rule.name}-{release.version}"),
            python=base.python,
            requirements=pinned(base.requirements, {rule.name: release.version}),
            as_of=_later(base.as_of, release.uploaded),
            core=rule.core,
            summary=f"{rule.name} {release.version} with the rest of {base.name}",
        )
        for release in wanted(rule, releases)
    )


def wanted(rule: Releases, releases: Iterable[Release]) -> tuple[Release, ...]:
    """The releases that ``rule`` asks for, oldest version first."""
    releases = tuple(releases)
    named = {Version(text) for text in rule.exactly}
    asked = rule.prereleases or any(_is_prerelease(bound) for bound in (rule.since, rule.until))
    there = admitted(releases, prereleases=asked)  # before the bounds: "nothing else" is said of all releases
    taken = [r for r in there if _from(rule.since, r) and _until(rule.until, r)]
    if rule.which == "last-patch":
        taken = list({minor(release): release for release in taken}.values())
    taken += [r for r in releases if Version(r.version) in named and r not in taken]
    return tuple(sorted(taken, key=lambda release: Version(release.version)))


def pinned(requirements: Sequence[str], versions: dict[str, str]) -> tuple[str, ...]:
    """``requirements`` with the packages of ``versions`` at exactly that version, and their twins with them."""
    twins = {TWINS[name]: version for name, version in versions.items() if name in TWINS}
    known = {**twins, **versions}
    return tuple(_at(text, known.get(canonicalize_name(Requirement(text).name))) for text in requirements)


def names_of(requirements: Iterable[str]) -> tuple[str, ...]:
    """The packages that ``requirements`` name."""
    return tuple(canonicalize_name(Requirement(text).name) for text in requirements)


def safe_name(name: str) -> str:
    """``name`` with nothing in it that a file's name may not have, such as the ``!`` of an epoch."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _at(text: str, version: str | None) -> str:
    if version is None:
        return text
    requirement = Requirement(text)
    requirement.specifier = SpecifierSet(f"=={version}")
    return str(requirement)


def _later(as_of: dt.date | Literal["today"], day: dt.date | None) -> dt.date | Literal["today"]:
    return as_of if as_of == "today" or day is None else max(as_of, day)


def _from(bound: str | dt.date | None, release: Release) -> bool:
    if isinstance(bound, dt.date):
        return release.uploaded is not None and release.uploaded >= bound
    return bound is None or Version(release.version) >= Version(bound)


def _until(bound: str | dt.date | None, release: Release) -> bool:
    if isinstance(bound, dt.date):
        return release.uploaded is not None and release.uploaded <= bound
    return bound is None or Version(release.version) <= Version(bound)


def _is_prerelease(bound: str | dt.date | None) -> bool:
    return isinstance(bound, str) and Version(bound).is_prerelease
