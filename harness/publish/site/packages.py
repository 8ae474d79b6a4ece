"""A page per package: every release seen, on which stacks, and where a behaviour turns between neighbouring ones.

No two stacks differ in one package alone unless somebody made them so: what else moved is always named.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import InvalidVersion, Version

from harness.model import SHOWN
from harness.publish.site.cells import shown
from harness.publish.site.markup import page
from harness.publish.site.moves import TurningPoint, differ
from harness.publish.site.stacks import tally

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Sequence

    from harness.flips import Moved
    from harness.model import Lock
    from harness.publish.site.view import Place, View

Releases = dict[str, list["Lock"]]
MOST_STACKS = 12
"""Stacks of a release that its page names, the newest ones."""


class Release(NamedTuple):
    """A release and the stacks that have it, the newest first."""

    version: str
    released: dt.date | None
    stacks: list[Lock]
    untold: int
    tally: str


class Turn(NamedTuple):
    """A variant that behaves otherwise with the newer release."""

    point: TurningPoint
    before: str
    after: str
    everywhere: bool
    """On every stack with either release, where it was judged."""


class Step(NamedTuple):
    """Two neighbouring releases, compared on the two stacks that differ least otherwise."""

    older: str
    newer: str
    before: Lock
    after: Lock
    moved: Sequence[Moved]
    """The other packages that moved."""
    turns: list[Turn]


def package_pages(view: View) -> Iterator[tuple[str, bytes]]:
    """The page of each package that the matrix is about."""
    for name in SHOWN:
        releases = by_release(view, name)
        yield page(
            "package.html",
            f"packages/{name}.html",
            package=name,
            packages=SHOWN,
            releases=[release(view, name, version, locks) for version, locks in reversed(releases.items())],
            steps=[step(view, name, older, newer) for older, newer in reversed(list(pairwise(releases.items())))],
            without=[lock for lock in view.newest_first if name not in view.versions[lock.stack]],
        )


def by_release(view: View, name: str) -> Releases:
    """The stacks of each release of a package, the oldest release first."""
    found: Releases = defaultdict(list)
    for lock in view.newest_first:
        version = view.versions[lock.stack].get(name)
        if version is not None:
            found[version].append(lock)
    return dict(sorted(found.items(), key=lambda each: ranked(each[0])))


def ranked(version: str) -> tuple[bool, Version, str]:
    """Versions in their order; what is none comes first."""
    try:
        return True, Version(version), version
    except InvalidVersion:
        return False, Version("0"), version


def release(view: View, name: str, version: str, locks: list[Lock]) -> Release:
    """A release with its stacks."""
    known = (each.released for lock in locks for each in lock.packages if each.name == name)
    rows = [row for lock in locks for row in view.cells.get(lock.stack, {}).values()]
    return Release(version, next(known, None), locks[:MOST_STACKS], len(locks[MOST_STACKS:]), tally(rows))


def step(view: View, name: str, older: tuple[str, list[Lock]], newer: tuple[str, list[Lock]]) -> Step:
    """What changes from one release to the next one."""
    before, after = nearest(view, older[1], newer[1])
    moved = [each for each in view.moves.between(before.stack, after.stack) if each.name != name]
    turns = []
    for place, row in view.cells.get(after.stack, {}).items():
        was = view.row(before.stack, place)
        if was is None or None in (row.passed, was.passed) or not differ(was, row):
            continue
        point = TurningPoint(was, row)
        everywhere = unanimous(view, place, point, older[1], newer[1])
        turns.append(Turn(point, shown(was).word, shown(row).word, everywhere))
    return Step(older[0], newer[0], before, after, moved, turns)


def nearest(view: View, older: Sequence[Lock], newer: Sequence[Lock]) -> tuple[Lock, Lock]:
    """The two stacks that differ in the fewest of the packages shown, and then lie nearest by date."""

    def distance(pair: tuple[Lock, Lock]) -> tuple[int, int]:
        before, after = (view.versions[lock.stack] for lock in pair)
        return sum(before.get(name) != after.get(name) for name in SHOWN), abs((pair[1].as_of - pair[0].as_of).days)

    return min(((one, other) for one in older for other in newer), key=distance)


def unanimous(view: View, place: Place, point: TurningPoint, older: Sequence[Lock], newer: Sequence[Lock]) -> bool:
    """Whether every stack with the one release behaves as before, and every one with the other as after."""
    for expected, locks in ((point.before, older), (point.after, newer)):
        rows = (view.row(lock.stack, place) for lock in locks)
        if any(row is not None and row.passed is not None and differ(row, expected) for row in rows):
            return False
    return True
