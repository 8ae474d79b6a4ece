"""Generated stacks: the [generate.*] tables of matrix.toml are rules that give stacks.

A rule is read and checked without the package index. What it gives is a function of the rule, the
releases in the index, and the day:

- [generate.snapshots]: a stack for the end of each month or quarter, as a plain install gave it
- [generate.releases]: a stack for every release of one package, with the rest of another stack
- [generate.window]: the oldest and the newest versions that SPEC 0 supports
- [generate.pairwise]: few stacks in which every pair of releases meets (see ``pairwise.py``)

SPEC 0 (https://scientific-python.org/specs/spec-0000/) supports a feature release for 24 months and
a Python for 36, and drops support by the quarter. So a window is that of a quarter's first day.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gradmatrix.core.errors import (
    check_build,
    check_name,
    check_python,
    check_requirement,
    did_you_mean,
    wrong,
)
from gradmatrix.core.files import from_table
from gradmatrix.core.model import Stack
from gradmatrix.core.observation import Frozen
from gradmatrix.stacks.index import Release, admitted, minor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


Every = Literal["month", "quarter"]
REQUIREMENTS = ("torch", "lightning", "pytorch-lightning", "transformers", "peft", "trl")
"""The default requirements of a rule."""
PYTHON = "3.11"
TWINS = {"lightning": "pytorch-lightning", "pytorch-lightning": "lightning"}
"""One project under two names. A stack that asks for both has both at one version."""

Requirements = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
Several = Annotated[int, msgspec.Meta(ge=1, le=1200)]
"""A number of months or quarters. The limit keeps dates valid."""


class Snapshots(Frozen, frozen=True, kw_only=True):
    """[generate.snapshots]: what a plain install gave on the last day of each period."""

    every: Every
    """The length of a period."""
    since: dt.date = msgspec.field(name="from")
    """The first period."""
    until: dt.date | None = None
    """The last period; without the key, the last one that has ended."""
    requirements: Requirements = REQUIREMENTS
    """What is installed, without pins."""
    python: str = PYTHON
    """A Python version."""
    prefix: str = "snapshot"
    """How the stacks' names begin."""
    core: bool = False
    """Whether `nox -s matrix` runs them."""
    build: tuple[str, ...] = ()
    """Packages that are built from their source releases."""


class Releases(Frozen, frozen=True, kw_only=True):
    """[generate.releases]: another stack, once with every release of one package."""

    package: str
    """The package whose releases are taken."""
    base: str
    """The stack whose other requirements are used."""
    which: Literal["all", "last-patch"] = "last-patch"
    """Every release, or the last patch of each minor release."""
    since: Any = msgspec.field(name="from", default=None)
    """The first release, by its version (text) or its day (a date)."""
    until: Any = None
    prereleases: bool = False
    """Whether pre-releases count."""
    exactly: tuple[str, ...] = ()
    """Releases that are always included, even if they are yanked or out of bounds."""
    prefix: str = ""
    """How the stacks' names begin; without the key, the package."""
    core: bool = False
    """Whether `nox -s matrix` runs them."""

    @property
    def name(self) -> str:
        """The package, as an index knows it."""
        return canonicalize_name(self.package)


class Window(Frozen, frozen=True, kw_only=True):
    """[generate.window]: the oldest and the newest versions that SPEC 0 supports."""

    requirements: Requirements = REQUIREMENTS
    """The packages of the window."""
    months: Several = 24
    """For how long a release of a package is supported."""
    python_months: Several = 36
    """For how long a release of Python is supported."""
    python: str | None = None
    """None for the oldest one that is supported."""
    quarters: Several = 1
    """For how many quarters there is a stack of the oldest versions, from this one on."""
    each: bool = False
    """Whether each package gets a stack in which only it is as old as is supported."""
    prefix: str = "window"
    """How the stacks' names begin."""
    core: bool = False
    """Whether `nox -s matrix` runs them."""
    build: tuple[str, ...] = ()
    """Packages that are built from their source releases."""


class Pairwise(Frozen, frozen=True, kw_only=True):
    """[generate.pairwise]: few stacks in which every pair of releases meets at least once."""

    versions: Annotated[dict[str, tuple[str, ...] | str], msgspec.Meta(min_length=2)]
    """The versions of each package: a list, or bounds such as `">=2.8"` for the last patch of each
    minor release within them."""
    strength: Annotated[int, msgspec.Meta(ge=2, le=3)] = 2
    """How many releases meet: every pair, or with 3 every three."""
    requirements: Requirements = REQUIREMENTS
    """What is installed; a package without a row in `versions` is left open."""
    pythons: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = (PYTHON,)
    """Python versions. A stack has the first one with which it can be installed."""
    scenarios: tuple[str, ...] = ()
    """The only scenarios that they run; without the key, those of [run]."""
    prefix: str = "pairwise"
    """How the stacks' names begin."""
    core: bool = False
    """Whether `nox -s matrix` runs them."""
    build: tuple[str, ...] = ()
    """Packages that are built from their source releases."""

    @property
    def by_name(self) -> dict[str, tuple[str, ...] | str]:
        """The asked versions by the package's name as an index knows it."""
        return {canonicalize_name(name): asked for name, asked in self.versions.items()}


Rule = Snapshots | Releases | Window | Pairwise
KINDS: dict[str, type[Rule]] = {
    "snapshots": Snapshots,
    "releases": Releases,
    "window": Window,
    "pairwise": Pairwise,
}


@dataclass(frozen=True)
class Placed:
    """A rule, its table in the file, and the stack that it is based on."""

    place: str
    rule: Rule = field(hash=False)  # it may hold a dictionary
    base: Stack | None = None

    def asked(self) -> dict[str, Any]:
        """The rule and its base as plain data. Stacks follow from it, the releases and the day."""
        base = self.base and {
            key: getattr(self.base, key)
            for key in ("name", "python", "requirements", "as_of", "build")
        }
        asked = {"kind": type(self.rule).__name__.lower(), "rule": self.rule, "base": base}
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(asked))
        return plain


def read(path: Path, tables: Mapping[str, Any], today: dt.date) -> tuple[Placed, ...]:
    """The rules in the [generate] table of ``path``, without bases; UserError if one is wrong."""
    found = []
    for kind, given in tables.items():
        if kind not in KINDS:
            raise wrong(path, f"has the unknown table [generate.{kind}]", did_you_mean(kind, KINDS))
        found += [
            _rule(path, place, KINDS[kind], table, today)
            for place, table in _tables(path, kind, given)
        ]
    return tuple(found)


def based(path: Path, placed: Iterable[Placed], stacks: Sequence[Stack]) -> tuple[Placed, ...]:
    """``placed`` with their bases from ``stacks``; UserError if there is no such stack."""
    return tuple(_based(path, each, stacks) for each in placed)


def snapshots_of(placed: Iterable[Placed], today: dt.date) -> Iterator[tuple[str, Stack]]:
    """The stacks of snapshots, which need no index, each with the table of its rule."""
    for each in placed:
        if isinstance(each.rule, Snapshots):
            yield from ((each.place, stack) for stack in snapshots(each.rule, today))


def joined(
    path: Path, stacks: Sequence[Stack], generated: Iterable[tuple[str, Stack]]
) -> tuple[Stack, ...]:
    """``stacks``, and those ``generated`` ones (with the table of their rule) that are new.

    Raises:
        UserError: if two different stacks have one name
    """
    known = {stack.name.lower(): ("a [[stacks]] table", stack) for stack in stacks}
    for place, stack in generated:
        other, there = known.setdefault(stack.name.lower(), (place, stack))
        if _substance(there) != _substance(stack):
            cause = f"{other} gives another stack of that name; set a prefix in {place}"
            raise wrong(path, f"gives a second stack {stack.name!r} in {place}", cause)
    return tuple(stack for _, stack in known.values())


def _substance(stack: Stack) -> tuple[object, ...]:
    """Two stacks are the same if these are equal."""
    return stack.name, stack.python, stack.requirements, stack.as_of, stack.build


def _tables(path: Path, kind: str, given: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each table of a kind with its name for people: ``[generate.kind]``, or a numbered one."""
    several = isinstance(given, list)
    for number, table in enumerate(given if isinstance(given, list) else [given], start=1):
        place = f"[[generate.{kind}]] number {number}" if several else f"[generate.{kind}]"
        if not isinstance(table, dict):
            raise wrong(
                path, f"has no table in {place}", fix=f"write the keys below [generate.{kind}]"
            )
        yield place, table


def _rule(
    path: Path, place: str, kind: type[Rule], table: dict[str, Any], today: dt.date
) -> Placed:
    rule = from_table(path, table, kind, place)
    if rule.prefix or not isinstance(rule, Releases):
        check_name(path, "prefix", rule.prefix)
    if isinstance(rule, Releases):
        _check_releases(path, place, rule, today)
        return Placed(place, rule)
    for python in rule.pythons if isinstance(rule, Pairwise) else filter(None, (rule.python,)):
        check_python(path, place, python)
    for text in rule.requirements:
        check_requirement(path, place, text)
    check_build(path, place, rule.build)
    if isinstance(rule, Snapshots):
        _check_days(path, place, (rule.since, rule.until), today)
    if isinstance(rule, Pairwise):
        _check_pairwise(path, place, rule)
    return Placed(place, rule)


def _check_pairwise(path: Path, place: str, rule: Pairwise) -> None:
    if len(rule.by_name) < max(rule.strength, len(rule.versions)):
        what = f"has too few packages in the key 'versions' of {place}"
        raise wrong(path, what, f"{rule.strength} different ones or more are combined")
    names = names_of(rule.requirements)
    for name, asked in rule.by_name.items():
        if name not in names:
            what = f"has versions of {name!r} in {place}, which its requirements do not name"
            raise wrong(path, what, did_you_mean(name, names))
        if TWINS.get(name) in rule.by_name:
            what = f"has versions of {name!r} and of {TWINS[name]!r} in {place}"
            raise wrong(path, what, "they are one project: both get the version of the first")
        if not (_is_bounds(asked) if isinstance(asked, str) else _are_versions(asked)):
            what = f"has the versions {asked!r} of {name!r} in {place}, which cannot be read"
            fix = 'write different versions such as ["2.8.0", "2.9.1"], or bounds such as ">=2.8"'
            raise wrong(path, what, fix=fix)


def _is_bounds(text: str) -> bool:
    try:
        return bool(SpecifierSet(text))
    except InvalidSpecifier:
        return False


def _are_versions(texts: Sequence[str]) -> bool:
    return all(map(_is_version, texts)) and len(set(map(Version, texts))) == len(texts) > 0


def _check_releases(path: Path, place: str, rule: Releases, today: dt.date) -> None:
    check_requirement(path, place, rule.package)
    if canonicalize_name(rule.package) != names_of([rule.package])[0]:
        raise wrong(
            path,
            f"has package = {rule.package!r} in {place}",
            fix="write a package's name, without a version",
        )
    for key, text in (
        ("from", rule.since),
        ("until", rule.until),
        *(("exactly", text) for text in rule.exactly),
    ):
        _check_bound(path, place, key, text)
    bounds = [rule.since, rule.until]
    if all(isinstance(bound, str) for bound in bounds) and Version(rule.since) > Version(
        rule.until
    ):
        what = f"has from = {rule.since!r} after until = {rule.until!r} in {place}"
        raise wrong(path, what, "from is the first release, until is the last one")
    if not any(isinstance(bound, str) for bound in bounds):
        _check_days(path, place, (rule.since, rule.until), today)


def _check_bound(path: Path, place: str, key: str, bound: object) -> None:
    """UserError unless ``bound`` is a version, a date or None."""
    if bound is None or (isinstance(bound, dt.date) and not isinstance(bound, dt.datetime)):
        return
    if not isinstance(bound, str) or not _is_version(bound):
        what = f"has {key} = {str(bound)!r} in {place}, which is not a release"
        fix = 'write a version in quotes, such as "4.40", or a date without, such as 2024-12-31'
        raise wrong(path, what, fix=fix)


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _check_days(
    path: Path, place: str, days: tuple[dt.date | None, dt.date | None], today: dt.date
) -> None:
    since, until = days
    if since and until and since > until:
        what = f"has from = {since} after until = {until} in {place}"
        raise wrong(path, what, "from is the first day, until is the last one")
    if since and since > today:
        raise wrong(
            path,
            f"has from = {since} in {place}, which is in the future",
            "its releases are not known yet",
        )


def _based(path: Path, placed: Placed, stacks: Sequence[Stack]) -> Placed:
    """``placed`` with its base; UserError if that is unknown or does not ask for the package."""
    rule = placed.rule
    if not isinstance(rule, Releases):
        return placed
    base = next((stack for stack in stacks if stack.name == rule.base), None)
    if base is None:
        cause = (
            did_you_mean(rule.base, [stack.name for stack in stacks])
            if stacks
            else "there is no stack at all"
        )
        raise wrong(
            path, f"has base = {rule.base!r} in {placed.place}, which is not a stack", cause
        )
    if rule.name not in names_of(base.requirements):
        cause = f"its requirements are {', '.join(base.requirements)}"
        what = (
            f"has package = {rule.package!r} in {placed.place}, which {base.name} does not ask for"
        )
        raise wrong(path, what, cause)
    return Placed(placed.place, rule, base)


LENGTH: dict[Every, int] = {"month": 1, "quarter": 3}
"""Months of a period."""
MONTHS = 12


def end_of(day: dt.date, every: Every) -> dt.date:
    """The last day of the month or quarter of ``day``."""
    length = LENGTH[every]
    month = -(-day.month // length) * length
    return dt.date(day.year, month, calendar.monthrange(day.year, month)[1])


def start_of(day: dt.date, every: Every) -> dt.date:
    """The first day of the month or quarter of ``day``."""
    length = LENGTH[every]
    return dt.date(day.year, (day.month - 1) // length * length + 1, 1)


def months_later(day: dt.date, months: int) -> dt.date:
    """The same day some months later; the last day of a month that is too short."""
    year, month = divmod(day.year * MONTHS + day.month - 1 + months, MONTHS)
    return dt.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def ends(every: Every, first: dt.date, last: dt.date) -> tuple[dt.date, ...]:
    """The last days of the periods that end from ``first`` to ``last``, inclusive."""
    found = []
    end = end_of(first, every)
    while end <= last:
        found.append(end)
        end = end_of(end + dt.timedelta(days=1), every)
    return tuple(found)


def snapshots(rule: Snapshots, today: dt.date) -> tuple[Stack, ...]:
    """A stack for every period that ended before ``today``."""
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
            build=tuple(map(canonicalize_name, rule.build)),
        )
        for day in ends(rule.every, rule.since, until)
    )


def over_base(rule: Releases, base: Stack, releases: Iterable[Release]) -> tuple[Stack, ...]:
    """The stack ``base`` with each wanted release of the rule's package, oldest version first."""
    return tuple(
        Stack(
            name=safe_name(f"{rule.prefix or rule.name}-{release.version}"),
            python=base.python,
            requirements=pinned(base.requirements, {rule.name: release.version}),
            as_of=_later(base.as_of, release.uploaded),
            core=rule.core,
            summary=f"{rule.name} {release.version} with the rest of {base.name}",
            build=base.build,
            scenarios=base.scenarios,
            prereleases=base.prereleases,
        )
        for release in wanted(rule, releases)
    )


def wanted(rule: Releases, releases: Iterable[Release]) -> tuple[Release, ...]:
    """The releases that ``rule`` asks for, oldest version first."""
    releases = tuple(releases)
    named = {Version(text) for text in rule.exactly}
    asked = rule.prereleases or any(_is_prerelease(bound) for bound in (rule.since, rule.until))
    there = admitted(releases, prereleases=asked)  # before the bounds are applied
    taken = [r for r in there if _from(rule.since, r) and _until(rule.until, r)]
    if rule.which == "last-patch":
        taken = list({minor(release): release for release in taken}.values())
    taken += [r for r in releases if Version(r.version) in named and r not in taken]
    return tuple(sorted(taken, key=lambda release: Version(release.version)))


def pinned(requirements: Sequence[str], versions: dict[str, str]) -> tuple[str, ...]:
    """``requirements`` with the packages of ``versions``, and their twins, at those versions."""
    twins = {TWINS[name]: version for name, version in versions.items() if name in TWINS}
    known = {**twins, **versions}
    return tuple(
        _at(text, known.get(canonicalize_name(Requirement(text).name))) for text in requirements
    )


def names_of(requirements: Iterable[str]) -> tuple[str, ...]:
    """The packages that ``requirements`` name."""
    return tuple(canonicalize_name(Requirement(text).name) for text in requirements)


def safe_name(name: str) -> str:
    """``name`` without characters that a file name may not have, such as the ``!`` of an epoch."""
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


PYTHONS = {
    "3.9": dt.date(2020, 10, 5),
    "3.10": dt.date(2021, 10, 4),
    "3.11": dt.date(2022, 10, 24),
    "3.12": dt.date(2023, 10, 2),
    "3.13": dt.date(2024, 10, 7),
    "3.14": dt.date(2025, 10, 7),
}
"""When each Python came out (PEPs 596, 619, 664, 693, 719, 745)."""


def packages(rule: Window) -> tuple[str, ...]:
    """The packages that the rule's requirements leave open; of two twins the first."""
    named = _pinned(rule)
    open_ones = [
        name
        for name in names_of(rule.requirements)
        if name not in named and TWINS.get(name) not in named
    ]
    return tuple(name for n, name in enumerate(open_ones) if TWINS.get(name) not in open_ones[:n])


def needed(rule: Window) -> tuple[str, ...]:
    """The packages whose releases must be known: open ones and those with bounds."""
    return tuple(dict.fromkeys((*packages(rule), *_pinned(rule))))


def _pinned(rule: Window) -> tuple[str, ...]:
    return names_of(text for text in rule.requirements if Requirement(text).specifier)


def window(
    rule: Window, releases: Mapping[str, Iterable[Release]], today: dt.date
) -> tuple[Stack, ...]:
    """The oldest versions of each quarter; of this quarter also the newest, and one package old."""
    quarter = start_of(today - dt.timedelta(days=1), "quarter")  # its first day must be over
    starts = [months_later(quarter, LENGTH["quarter"] * number) for number in range(rule.quarters)]
    floors = [_floor_stack(rule, releases, day) for day in starts]
    there = max((quarter, *_days(rule, releases)))
    newest = _stack(rule, quarter, "newest", {}, "the newest of everything", as_of=there)
    return (*floors, newest, *(_each(rule, releases, quarter) if rule.each else ()))


def floor(releases: Iterable[Release], day: dt.date, months: int) -> Release | None:
    """The oldest release that is supported on ``day``, and not yanked.

    If no feature release is supported, it is one of the newest. None without any release.
    """
    features: dict[tuple[int, int, int], list[Release]] = defaultdict(list)
    for release in releases:
        if release.uploaded and not release.prerelease:
            features[minor(release)].append(release)
    there = {
        key: sorted(
            (r for r in patches if not r.yanked), key=lambda release: Version(release.version)
        )
        for key, patches in sorted(features.items())
    }
    there = {key: patches for key, patches in there.items() if patches}
    owed = [key for key in there if months_later(_born(features[key]), months) > day]
    chosen = owed[0] if owed else max(there, default=None)
    return None if chosen is None else there[chosen][0]


def python_floor(day: dt.date, months: int) -> str:
    """The oldest Python that is supported on ``day``; the newest if none is."""
    owed = (version for version, born in PYTHONS.items() if months_later(born, months) > day)
    return next(owed, max(PYTHONS, key=Version))


def _floor_stack(rule: Window, releases: Mapping[str, Iterable[Release]], day: dt.date) -> Stack:
    """Every package at its oldest version, as of the day on which all of them were out."""
    found = {name: floor(releases[name], day, rule.months) for name in packages(rule)}
    floors = {name: release for name, release in found.items() if release is not None}
    python = rule.python or python_floor(day, rule.python_months)
    days = [release.uploaded for release in floors.values() if release.uploaded]
    days += [PYTHONS[python]] if python in PYTHONS else []
    days += _days(rule, releases)
    versions = {name: release.version for name, release in floors.items()}
    return _stack(
        rule, day, "floor", versions, "the oldest of everything", as_of=max(days, default=day)
    )


def _each(rule: Window, releases: Mapping[str, Iterable[Release]], day: dt.date) -> Iterable[Stack]:
    for name in packages(rule):
        release = floor(releases[name], day, rule.months)
        if release is not None:
            what = f"the oldest {name}, and the rest as new as goes with it"
            there = max((day, *_days(rule, releases), *filter(None, (release.uploaded,))))
            yield _stack(
                rule, day, f"{name}-{release.version}", {name: release.version}, what, as_of=there
            )


def _stack(
    rule: Window,
    day: dt.date,
    end: str,
    versions: dict[str, str],
    what: str,
    *,
    as_of: dt.date | None = None,
) -> Stack:
    quarter = f"{day.year}-q{(day.month - 1) // LENGTH['quarter'] + 1}"
    return Stack(
        name=safe_name(f"{rule.prefix}-{quarter}-{end}"),
        python=rule.python or python_floor(day, rule.python_months),
        requirements=pinned(rule.requirements, versions),
        as_of=as_of or day,
        core=rule.core,
        summary=f"SPEC 0's window of {quarter}: {what}",
        build=tuple(map(canonicalize_name, rule.build)),
    )


def _days(rule: Window, releases: Mapping[str, Iterable[Release]]) -> list[dt.date]:
    """The first day on which each requirement could be met."""
    found = []
    for requirement in map(Requirement, rule.requirements):
        there = releases.get(canonicalize_name(requirement.name), ())
        met = [
            r.uploaded for r in there if r.uploaded and requirement.specifier.contains(r.version)
        ]
        found += [min(met)] if met else []
    return found


def _born(patches: Iterable[Release]) -> dt.date:
    """The day of a feature release: that of its first file."""
    return min(patch.uploaded for patch in patches if patch.uploaded)
