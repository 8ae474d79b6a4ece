"""The first page and the pages of older stacks: what is new, the heat map, and all cells."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.model import SHOWN, Role
from gradmatrix.core.text import listed
from gradmatrix.publish.site import links
from gradmatrix.publish.site.heatmap import heat_map
from gradmatrix.publish.site.history import lately, standing
from gradmatrix.publish.site.markup import GLOSSARY, ROLES, page
from gradmatrix.publish.site.pages import Behaviour, behaviours
from gradmatrix.publish.site.releases import newest_pair, ran_with, ranked, released_stacks
from gradmatrix.publish.site.tables import WINDOW, change_of, differ, section_table

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Mapping, Sequence

    from gradmatrix.compare.history import History
    from gradmatrix.core.model import Lock
    from gradmatrix.judge.versions import PackageMove
    from gradmatrix.publish.formats import PairwiseEntry
    from gradmatrix.publish.rows import Row
    from gradmatrix.publish.site.tables import Place, View

MOST_KNOWN = 3
"""The most earlier releases of a package that are named because they changed something."""
KNOWN = ("fixed", "broke", "changed")
"""What releases are known to have done to cells, in the order in which it is told."""
WORDS = {
    "fixed": "p",
    "broken": "f",
    "now reported": "p",
    "now silent": "f",
    "changed otherwise": "n",
}
"""What a change is called, in the order in which changes are told, and its class."""


class Newest(NamedTuple):
    """The newest judged stack of releases, in one line."""

    lock: Lock
    reported: str
    """How many variants that were reported as broken train; empty if there are none."""
    controls: str


class Move(NamedTuple):
    """What changes for somebody who moves from one stack to the newest."""

    lock: Lock
    """The stack that they leave."""
    compared: int
    """Cells that were judged on both."""
    controls: int
    """Controls that regress: they should always train."""
    broken: list[tuple[str, int]]
    """Scenarios with cells that regress: they break, or do not report a mistake any more."""
    fixed: int

    @property
    def answer(self) -> str:
        """Whether it is safe, in a word."""
        return "not yet" if self.controls else "yes, but" if self.broken else "yes"


class Coming(NamedTuple):
    """What the releases of tomorrow would do to the newest stack, if they were released today."""

    lock: Lock
    """The stack with pre-releases."""
    base: Lock
    """The stack that asks for the same without them."""
    moves: Sequence[PackageMove]
    compared: int
    """Cells that were judged on both."""
    broken: list[Row]
    mended: list[Row]


class Changed(NamedTuple):
    """What a release changed, known by running one release after the other."""

    release: str
    released: dt.date | None
    what: str
    """How many cells it broke, fixed and changed otherwise."""


class Change(NamedTuple):
    """Cells that changed in the same way."""

    word: str
    kind: str
    """Its class."""
    cells: int
    scenarios: list[tuple[str, int]]


class Seen(NamedTuple):
    """How the cells end with the newest release of a package, and with an earlier one."""

    older: str
    before: Lock
    after: Lock
    compared: int
    """Cells that were judged on both stacks."""
    others: str
    """The other main packages that differ between the stacks."""
    changes: list[Change]
    explained: int
    """Changed cells of which it is known which release did it."""
    known: str
    """These releases."""


class Release(NamedTuple):
    """The newest release of a package that ran."""

    package: str
    version: str
    released: dt.date | None
    exact: Changed | None
    """What it is known to have changed."""
    seen: Seen | None
    """What differs from an earlier release, if one ran most of its cells."""
    is_only: bool
    """No other release ran."""
    earlier: list[Changed]
    """Earlier releases that are known to have changed something."""


def front_pages(
    view: View, history: History | None, pairs: Sequence[PairwiseEntry]
) -> Iterator[tuple[str, bytes]]:
    """Yield index.html with the newest stacks, older-1.html and so on, and map.html if needed."""
    windows = view.windows()
    heat, last = heat_map(view), newest(view)
    for number, locks in enumerate(windows):
        pages = {"number": number, "windows": windows}
        tables = [section_table(view, section, locks, "") for section in view.sections]
        if number:
            path = links.older(number)
            yield page("older.html", path, tables=tables, locks=locks, **pages)
            continue
        yield page(
            "index.html",
            links.INDEX,
            tables=tables,
            heat=heat,
            view=view,
            releases=newest_releases(view),
            newest=last,
            moves=list(moves_to(view, last.lock)) if last is not None else [],
            coming=coming(view),
            pairs=pairs,
            lately=lately(history),
            regressed=standing(view, history),
            roles=ROLES,
            glossary=GLOSSARY,
            **pages,
        )
    if heat is not None and heat.left_out:
        yield page("map.html", links.MAP, heat=heat_map(view, None))


def newest(view: View) -> Newest | None:
    """Return the newest stack of releases on which something was judged."""
    for lock in released_stacks(view):
        rows = view.cells[lock.stack].values()
        for device in view.devices:
            judged = [row for row in rows if row.device == device and row.passed is not None]
            if judged:
                return Newest(lock, *(share(judged, r) for r in (Role.REPORTED, Role.CONTROL)))
    return None


def moves_to(view: View, newest: Lock) -> Iterator[Move]:
    """Yield what changes from each stack of releases to the newest one, the newest first."""
    dated = (each for each in released_stacks(view) if each.stack not in view.table.combined)
    for lock in islice(dated, WINDOW):
        both = pairs_of_rows(view, lock, newest)
        changed = [(change_of(was, row), row) for was, row in both if differ(was, row)]
        broken = [row for word, row in changed if WORDS[word] == "f"]
        if both and lock is not newest:
            yield Move(
                lock,
                len(both),
                sum(row.role is Role.CONTROL for row in broken),
                Counter(row.scenario for row in broken).most_common(),
                sum(word == "fixed" for word, _ in changed),
            )


def share(rows: Sequence[Row], role: Role) -> str:
    """Return how many variants of a role pass; empty if there are none."""
    passed = [row.passed is True for row in rows if row.role is role]
    return f"{sum(passed)} of {len(passed)}" if passed else ""


def coming(view: View) -> Coming | None:
    """Compare the newest stack with pre-releases with the one that asks for the same without."""
    for lock in (lock for lock in view.newest_first if lock.prereleases):
        for base in (base for base in view.newest_first if not base.prereleases):
            if (base.requirements, base.python) == (lock.requirements, lock.python):
                both = pairs_of_rows(view, base, lock)
                return Coming(
                    lock,
                    base,
                    view.moves.between(base.stack, lock.stack),
                    len(both),
                    [row for was, row in both if was.passed and not row.passed],
                    [row for was, row in both if row.passed and not was.passed],
                )
    return None


def pairs_of_rows(view: View, older: Lock, newer: Lock) -> list[tuple[Row, Row]]:
    """Return the cells that were judged on both stacks."""
    before, after = (view.cells.get(lock.stack, {}) for lock in (older, newer))
    return [
        (was, row)
        for place, row in after.items()
        if row.passed is not None
        if (was := before.get(place)) is not None and was.passed is not None
    ]


def newest_releases(view: View) -> list[Release]:
    """Return the newest release of each main package, and of others that changed something."""
    exact = behaviours(view)
    names = dict.fromkeys((*SHOWN, *sorted({each.package for each in exact})))
    found = (newest_release(view, name, exact) for name in names)
    return [each for each in found if each is not None]


def newest_release(view: View, name: str, exact: Sequence[Behaviour]) -> Release | None:
    """Return the newest release of a package on these stacks; None if none of them has it."""
    releases = ran_with(view, name)
    if not releases:
        return None
    version, *_ = releases
    known = changed_by([each for each in exact if each.package == name])
    return Release(
        package=name,
        version=version,
        released=released(releases[version], name),
        exact=next((each for each in known if each.release == version), None),
        seen=seen(view, name, releases, exact),
        is_only=len(releases) == 1,
        earlier=[each for each in known if each.release != version][:MOST_KNOWN],
    )


def released(locks: Sequence[Lock], name: str) -> dt.date | None:
    """Return the day of the release of a package that these stacks have, if they know it."""
    return next((p.released for lock in locks for p in lock.packages if p.name == name), None)


def changed_by(known: Sequence[Behaviour]) -> list[Changed]:
    """Return what each release changed, the newest first."""
    count: dict[tuple[str, dt.date | None], Counter[str]] = defaultdict(Counter)
    for each in known:
        count[each.release, each.released][each.kind] += 1
    return [
        Changed(*release, listed(f"{kind} {of[kind]}" for kind in KNOWN if of[kind]))
        for release, of in sorted(count.items(), key=lambda each: ranked(each[0][0]), reverse=True)
    ]


def seen(
    view: View, name: str, releases: Mapping[str, Sequence[Lock]], exact: Sequence[Behaviour]
) -> Seen | None:
    """Compare the newest release with the one before it that ran most of the same cells."""
    pair = newest_pair(view, releases)
    if pair is None:
        return None
    version, before, after = pair
    return compared(view, (name, version), before, after, exact)


def main_moves(view: View, before: Lock, after: Lock) -> list[PackageMove]:
    """Return the main packages that differ between two stacks."""
    return [each for each in view.moves.between(before.stack, after.stack) if each.name in SHOWN]


def compared(
    view: View, older: tuple[str, str], before: Lock, after: Lock, exact: Sequence[Behaviour]
) -> Seen:
    """Return what differs between a stack with an older release of a package, and one without."""
    name, version = older
    both = pairs_of_rows(view, before, after)
    changed = [(was, row) for was, row in both if differ(was, row)]
    moved = {each.name: each for each in view.moves.between(before.stack, after.stack)}
    outcomes = {(row.scenario, row.variant, row.device): (was, row) for was, row in changed}
    behind = [each for each in exact if explains(each, moved, outcomes)]
    return Seen(
        older=version,
        before=before,
        after=after,
        compared=len(both),
        others=listed(each.name for each in main_moves(view, before, after) if each.name != name),
        changes=list(changes(changed)),
        explained=len({each.cell for each in behind}),
        known=listed(dict.fromkeys(f"{each.package} {each.release}" for each in behind)),
    )


def explains(
    known: Behaviour,
    moved: Mapping[str, PackageMove],
    changed: Mapping[Place, tuple[Row, Row]],
) -> bool:
    """Whether a release is known to have changed a cell in the way in which it changed here."""
    cell, move = known.cell, moved.get(known.package)
    rows = changed.get((cell.scenario, cell.variant, cell.device))
    if rows is None or move is None or move.after is None:
        return False
    is_between = ranked(move.before or "") < ranked(known.release) <= ranked(move.after)
    return is_between and (known.was, known.now) == tuple(row.outcome for row in rows)


def changes(changed: Sequence[tuple[Row, Row]]) -> Iterator[Change]:
    """Yield the changes by word, with the scenarios in which they are."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for was, row in changed:
        found[change_of(was, row)][row.scenario] += 1
    for word, kind in WORDS.items():
        if word in found:
            yield Change(word, kind, found[word].total(), found[word].most_common())
