"""Pure: what ``--to`` asks for, and what becomes of a baseline's requirements by it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from harness.errors import UserError, without_credentials
from harness.generate import TWINS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from packaging.specifiers import Specifier

LATEST = "latest"
VCS = re.compile(r"^(?:git|hg|bzr|svn)\+")


@dataclass(frozen=True)
class Wish:
    """One package at another version: a requirement as it was given, ready for the resolver."""

    text: str
    """As it was given, for people."""
    name: str
    """Canonical."""
    requirement: str
    twin: bool = False
    """Nobody asked for it; it goes with another."""


def wish(text: str) -> Wish:
    """The wish that ``text`` is, a requirement with or without a version; UserError where it is none."""
    try:
        parsed = Requirement(text)
    except InvalidRequirement as error:
        raise UserError(
            f"--to {without_credentials(text)} cannot be read.",
            cause=f"it is no stack, no file, and no requirement: {str(error).splitlines()[0]}",
            next_step='write it like --to transformers==5.0.0, --to "trl<1", --to latest, --to NAME-OF-A-STACK, '
            "--to ./a.whl",
        ) from error
    return Wish(text, canonicalize_name(parsed.name), str(parsed))


def with_twins(wishes: Iterable[Wish], asked: Iterable[str]) -> tuple[Wish, ...]:
    """``wishes``, and the same for the other name of a library that the baseline has under two."""
    wishes = tuple(wishes)
    names = {each.name for each in wishes}
    there = {canonicalize_name(Requirement(text).name) for text in asked}
    found = []
    for each in wishes:
        other = TWINS.get(each.name)
        parsed = Requirement(each.requirement)
        if other in there and other not in names and each.name in there and not parsed.url:
            twin = replace(each, name=other, requirement=f"{other}{parsed.specifier}", twin=True)
            found.append(twin)
    return (*wishes, *found)


def applied(asked: Iterable[str], wishes: Iterable[Wish], *, latest: bool) -> tuple[str, ...]:
    """The requirements of a candidate: the wishes in the place of what the baseline asks of their packages.

    ``latest`` takes the bounds off all others. Extras and markers of the baseline stay: a package that it names on
    several lines, each with a marker, is wished on every one of them.
    """
    wished = {each.name: each for each in wishes}
    left = dict(wished)
    found = []
    for text in asked:
        old = Requirement(text)
        name = canonicalize_name(old.name)
        if name in wished:
            left.pop(name, None)
            found.append(merged(old, Requirement(wished[name].requirement)))
        else:
            found.append(unbound(old) if latest and not old.url else text)
    return (*dict.fromkeys(found), *(each.requirement for each in left.values()))


def merged(old: Requirement, new: Requirement) -> str:
    """The new bound with what the old one says beside it."""
    new.extras |= old.extras
    if new.marker is None:
        new.marker = old.marker
    return str(new)


def unbound(requirement: Requirement) -> str:
    """The requirement at any version: its name, extras and marker."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{canonicalize_name(requirement.name)}{extras}{marker}"


def without(requirements: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """The requirements that are on none of the packages ``names``."""
    return tuple(text for text in requirements if canonicalize_name(Requirement(text).name) not in names)


def relaxed(requirements: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """The requirements with the packages ``names`` at most as high as asked for: the newest that would do is below."""
    return tuple(
        at_most(parsed) if canonicalize_name(parsed.name) in names and not parsed.url else text
        for text in requirements
        for parsed in [Requirement(text)]
    )


def at_most(requirement: Requirement) -> str:
    """The requirement without its lowest version; an only version becomes the highest."""
    found = Requirement(unbound(requirement))
    tops = []
    for each in requirement.specifier:
        if each.operator in ("<", "!="):
            tops.append(str(each))
        elif each.operator == "~=" or each.version.endswith(".*"):
            tops.append(f"<{after_all_of(each)}")
        elif each.operator in ("==", "===", "<="):
            tops.append(f"<={each.version}")
    found.specifier = SpecifierSet(",".join(tops))
    return str(found)


def after_all_of(prefix: Specifier) -> str:
    """The first version that is too high for ``==5.1.*``, or for ``~=5.1.2``: both are all of 5.1."""
    release = Version(prefix.version.removesuffix(".*")).release
    release = release[:-1] if prefix.operator == "~=" else release
    return ".".join(map(str, [*release[:-1], release[-1] + 1]))


def bounds(requirements: Iterable[str], but: Collection[str]) -> list[str]:
    """Names of packages that the requirements bound, ``but`` those."""
    parsed = [Requirement(text) for text in requirements]
    return [
        name for each in parsed if (each.specifier or each.url) and (name := canonicalize_name(each.name)) not in but
    ]
