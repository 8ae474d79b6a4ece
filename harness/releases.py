"""The releases of a package, and which of them an install takes: yanked and pre-releases as uv treats them."""

from __future__ import annotations

import datetime as dt  # noqa: TC003  (msgspec reads the annotations)
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


def newest(releases: Iterable[Release], as_of: dt.date) -> Release | None:
    """The newest of ``releases`` on ``as_of``, neither yanked nor a pre-release."""
    there = [
        release
        for release in releases
        if release.uploaded and release.uploaded <= as_of and not (release.yanked or release.prerelease)
    ]
    return max(there, key=lambda release: Version(release.version), default=None)


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


def minor(release: Release) -> tuple[int, int, int]:
    """The feature release that ``release`` is a patch of: epoch, major and minor."""
    version = Version(release.version)
    return version.epoch, version.major, version.minor
