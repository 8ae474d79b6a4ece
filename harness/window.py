"""SPEC 0's support window: a feature release is supported for 24 months after it came out, a Python for 36.

https://scientific-python.org/specs/spec-0000/: "all versions refer to feature releases", and support is dropped by the
quarter. So a window is that of a quarter's first day, and what is supported then is owed until the quarter is over.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from harness import periods
from harness.generate import TWINS, Window, names_of, pinned, safe_name
from harness.model import Stack
from harness.releases import Release, minor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PYTHONS = {
    "3.9": dt.date(2020, 10, 5),
    "3.10": dt.date(2021, 10, 4),
    "3.11": dt.date(2022, 10, 24),
    "3.12": dt.date(2023, 10, 2),
    "3.13": dt.date(2024, 10, 7),
    "3.14": dt.date(2025, 10, 7),
}
"""When each Python came out (PEPs 596, 619, 664, 693, 719, 745): no package index knows. The next is no floor yet."""
QUARTER = 3
"""Months."""


def packages(rule: Window) -> tuple[str, ...]:
    """The packages whose window counts: those that the rule's requirements leave open, the first of two twins."""
    said = _pinned(rule)
    open_ones = [name for name in names_of(rule.requirements) if name not in said and TWINS.get(name) not in said]
    return tuple(name for n, name in enumerate(open_ones) if TWINS.get(name) not in open_ones[:n])


def needed(rule: Window) -> tuple[str, ...]:
    """The packages whose releases a window follows from: those with a window, and those that ask for a version."""
    return tuple(dict.fromkeys((*packages(rule), *_pinned(rule))))


def _pinned(rule: Window) -> tuple[str, ...]:
    return names_of(text for text in rule.requirements if Requirement(text).specifier)


def window(rule: Window, releases: Mapping[str, Iterable[Release]], today: dt.date) -> tuple[Stack, ...]:
    """The floors from this quarter on; of this quarter also the newest of all, and each package at its floor alone."""
    quarter = periods.start_of(today - dt.timedelta(days=1), "quarter")  # its first day is over, as with snapshots
    starts = [periods.moved(quarter, QUARTER * number) for number in range(rule.quarters)]
    floors = [_floor_stack(rule, releases, day) for day in starts]
    there = max((quarter, *_days(rule, releases)))
    newest = _stack(rule, quarter, "newest", {}, "the newest of everything", as_of=there)
    return (*floors, newest, *(_each(rule, releases, quarter) if rule.each else ()))


def floor(releases: Iterable[Release], day: dt.date, months: int) -> Release | None:
    """The oldest release that is supported on ``day``: the first of its feature release that is not yanked.

    Where the window holds none, the newest feature release: no package is without one. None without any release.
    """
    features: dict[tuple[int, int, int], list[Release]] = defaultdict(list)
    for release in releases:
        if release.uploaded and not release.prerelease:
            features[minor(release)].append(release)
    there = {
        key: sorted((r for r in patches if not r.yanked), key=lambda release: Version(release.version))
        for key, patches in sorted(features.items())
    }
    there = {key: patches for key, patches in there.items() if patches}
    owed = [key for key in there if periods.moved(_born(features[key]), months) > day]
    chosen = owed[0] if owed else max(there, default=None)
    return None if chosen is None else there[chosen][0]


def python_floor(day: dt.date, months: int) -> str:
    """The oldest Python that is supported on ``day``; the newest that is known where none is."""
    owed = (version for version, born in PYTHONS.items() if periods.moved(born, months) > day)
    return next(owed, max(PYTHONS, key=Version))


def _floor_stack(rule: Window, releases: Mapping[str, Iterable[Release]], day: dt.date) -> Stack:
    """Every package at its floor; as of the day on which the youngest of them was out."""
    found = {name: floor(releases[name], day, rule.months) for name in packages(rule)}
    floors = {name: release for name, release in found.items() if release is not None}
    python = rule.python or python_floor(day, rule.python_months)
    days = [release.uploaded for release in floors.values() if release.uploaded]
    days += [PYTHONS[python]] if python in PYTHONS else []
    days += _days(rule, releases)
    versions = {name: release.version for name, release in floors.items()}
    return _stack(rule, day, "floor", versions, "the oldest of everything", as_of=max(days, default=day))


def _each(rule: Window, releases: Mapping[str, Iterable[Release]], day: dt.date) -> Iterable[Stack]:
    for name in packages(rule):
        release = floor(releases[name], day, rule.months)
        if release is not None:
            said = f"the oldest {name}, and the rest as new as goes with it"
            there = max((day, *_days(rule, releases), *filter(None, (release.uploaded,))))
            yield _stack(rule, day, f"{name}-{release.version}", {name: release.version}, said, as_of=there)


def _stack(
    rule: Window, day: dt.date, end: str, versions: dict[str, str], said: str, *, as_of: dt.date | None = None
) -> Stack:
    quarter = f"{day.year}-q{(day.month - 1) // QUARTER + 1}"
    return Stack(
        name=safe_name(f"{rule.prefix}-{quarter}-{end}"),
        python=rule.python or python_floor(day, rule.python_months),
        requirements=pinned(rule.requirements, versions),
        as_of=as_of or day,
        core=rule.core,
        summary=f"SPEC 0's window of {quarter}: {said}",
    )


def _days(rule: Window, releases: Mapping[str, Iterable[Release]]) -> list[dt.date]:
    """For each requirement the first day on which a release met it: before that, no stack can ask for it."""
    found = []
    for requirement in map(Requirement, rule.requirements):
        there = releases.get(canonicalize_name(requirement.name), ())
        met = [r.uploaded for r in there if r.uploaded and requirement.specifier.contains(r.version)]
        found += [min(met)] if met else []
    return found


def _born(patches: Iterable[Release]) -> dt.date:
    """The day of a feature release: that of its first file, yanked or not."""
    return min(patch.uploaded for patch in patches if patch.uploaded)
