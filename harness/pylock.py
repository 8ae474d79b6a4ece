"""What a pylock.toml (PEP 751) locks, as an install without extras and groups of its own reads it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from packaging.markers import InvalidMarker, Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.errors import UserError
from harness.manifests import entries, toml
from harness.requirement_files import Listed
from harness.wishes import unbound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OF_PARTS = re.compile(r"\b(?:extras|dependency_groups)\b")
"""In a marker of a pylock.toml: it depends on what is asked for."""


class Dependency(msgspec.Struct, frozen=True):
    """What a package of a pylock.toml needs."""

    name: str = ""


class LockedEntry(msgspec.Struct, frozen=True):
    """A package of a pylock.toml."""

    name: str = ""
    version: str = ""
    marker: str = ""
    dependencies: list[Dependency] = []
    vcs: dict[str, Any] = {}
    archive: dict[str, Any] = {}
    directory: dict[str, Any] = {}


class LockDocument(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A pylock.toml, as far as it is read."""

    requires_python: str = ""
    default_groups: list[str] = []
    packages: list[LockedEntry] = []


def pylock(path: Path) -> Listed:
    """A pylock.toml (PEP 751): its packages at their versions."""
    document = toml(path, LockDocument)
    pins, depended, notices = [], set(), []
    for entry in document.packages:
        depended |= {canonicalize_name(each.name) for each in entry.dependencies}
        if not of_default_install(entry.marker, document.default_groups):
            continue
        marker = "" if OF_PARTS.search(entry.marker) else entry.marker
        source = source_of(entry)
        if source:
            pins.append(f"{entry.name} @ {source}" + (f" ; {marker}" if marker else ""))
            continue
        if entry.vcs or entry.archive or entry.directory:
            notices.append(f"{path.name}: {entry.name} is no release of the package index and is left out")
            continue
        if not entry.name or not entry.version:
            notices.append(f"{path.name}: {entry.name or 'a package'} has no version there and is left out")
            continue
        pins.append(f"{entry.name}=={entry.version}" + (f" ; {marker}" if marker else ""))
    if not pins:
        raise UserError(
            f"{path} locks no package.", cause="it has no [[packages]] with a version", next_step="name another file"
        )
    parsed = [Requirement(text) for text in entries(path, pins, "[[packages]]")]
    asked = tuple(unbound(each) for each in parsed if canonicalize_name(each.name) not in depended)
    if not depended:
        notices.append(f"{path.name} does not say which of its packages were asked for: all of them are kept")
    pinned = tuple(map(str, parsed))
    return Listed(pinned, locked=True, asked=asked, notices=tuple(notices), requires_python=document.requires_python)


def of_default_install(marker: str, groups: Sequence[str]) -> bool:
    """Whether a marker on extras or groups lets a package in where none is asked for; others are left to the resolver.

    What such a marker says of the machine besides is read as of this one.
    """
    if not OF_PARTS.search(marker):
        return True
    try:
        return Marker(marker).evaluate({"extras": frozenset(), "dependency_groups": frozenset(groups)}, "lock_file")
    except InvalidMarker:
        return True  # to be told with all that cannot be read


def source_of(entry: LockedEntry) -> str:
    """The address of a package that is locked by a commit; empty where it is not."""
    url, commit = entry.vcs.get("url"), entry.vcs.get("commit-id")
    if not url or not commit:
        return ""
    folder = entry.vcs.get("subdirectory")
    return f"{entry.vcs.get('type', 'git')}+{url}@{commit}" + (f"#subdirectory={folder}" if folder else "")
