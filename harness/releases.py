"""The releases of a package, and which of them an install takes: yanked and pre-releases as uv treats them."""

from __future__ import annotations

import datetime as dt  # noqa: TC003  (msgspec reads the annotations)
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


@dataclass(frozen=True, kw_only=True)
class Release:
    """One version of a package; ``uploaded`` is the UTC day of its first file, None where the index does not tell."""

    version: str
    uploaded: dt.date | None
    yanked: bool
    prerelease: bool
    requires_python: str = ""
    """Empty where one of its files says nothing."""

    def fits(self, pythons: Collection[str]) -> bool:
        """Whether one of ``pythons`` (feature releases) may install it."""
        try:
            allowed = SpecifierSet(self.requires_python)
        except InvalidSpecifier:
            return True
        return not pythons or any(allowed.contains(f"{python}.99") for python in pythons)


def newest(releases: Iterable[Release], as_of: dt.date) -> Release | None:
    """The newest of ``releases`` on ``as_of`` that is not yanked; a pre-release where there was nothing else."""
    there = admitted(release for release in releases if release.uploaded and release.uploaded <= as_of)
    return there[-1] if there else None


def admitted(
    releases: Iterable[Release], *, prereleases: bool = False, exactly: Collection[str] = ()
) -> tuple[Release, ...]:
    """The releases that an install may take, oldest version first.

    A yanked one only where it is asked for ``exactly``; a pre-release where it is, where ``prereleases`` are asked for,
    or where there is nothing else.
    """
    pinned = set(map(Version, exactly))
    candidates = [release for release in releases if not release.yanked or Version(release.version) in pinned]
    prereleases = prereleases or all(release.prerelease for release in candidates)
    kept = (r for r in candidates if prereleases or not r.prerelease or Version(r.version) in pinned)
    return tuple(sorted(kept, key=lambda release: Version(release.version)))


def both(releases: Iterable[Release], twins: Iterable[Release]) -> list[Release]:
    """Those of ``releases`` that ``twins`` have too, each as of the day on which both were out."""
    days = {Version(twin.version): twin.uploaded for twin in twins}
    return [
        replace(each, uploaded=max(filter(None, (each.uploaded, days[Version(each.version)])), default=None))
        for each in releases
        if Version(each.version) in days
    ]


def minor(release: Release) -> tuple[int, int, int]:
    """The feature release that ``release`` is a patch of: epoch, major and minor."""
    version = Version(release.version)
    return version.epoch, version.major, version.minor
