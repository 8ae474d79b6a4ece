"""A package along its releases: a grid of releases and scenarios, and since when variants work.

All orders are by version. Misuse is left out, because it cannot train. Stacks of pre-releases are
left out too, except in the line of a release that only they have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import groupby, islice, pairwise, product
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import InvalidVersion, Version

from gradmatrix.core.model import SHOWN
from gradmatrix.core.outcomes import Phase, phase_of
from gradmatrix.core.text import few, listed
from gradmatrix.judge.versions import names_of, of_needed, spells
from gradmatrix.publish.site import links
from gradmatrix.publish.site.markup import in_words, ready
from gradmatrix.publish.site.tables import breakable, counted_as

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup

    from gradmatrix.core.model import Lock
    from gradmatrix.judge.edge import Turning
    from gradmatrix.judge.versions import Spell
    from gradmatrix.publish.rows import Row
    from gradmatrix.publish.site.pages import Behaviour
    from gradmatrix.publish.site.tables import Line, Place, Section, View

Releases = dict[str, list["Lock"]]
Ends = set[bool]
"""Whether a variant passes on the stacks with a release."""
UP = "../"
"""The way from a page of a package to the folder of index.html."""
MOST = 0.5
"""The share of the cells of a release that an earlier one must have to be compared with it."""
MOST_STACKS = 12
"""The most stacks of a release that are named or compared, the newest ones."""
NEVER_BEGAN = frozenset({Phase.RESOLVE, Phase.INSTALL, Phase.IMPORT})
"""A failure in these phases is one of the release, and not of a variant."""


def by_release(view: View, name: str) -> Releases:
    """Return the stacks of each release of a package, the oldest release first."""
    found: Releases = defaultdict(list)
    for lock in view.newest_first:
        version = view.versions[lock.stack].get(name)
        if version is not None:
            found[version].append(lock)
    return dict(sorted(found.items(), key=lambda each: ranked(each[0])))


def ranked(version: str) -> tuple[bool, Version, str]:
    """Return a sort key for versions. Texts that are no versions come first."""
    parsed = parse(version)
    return parsed is not None, parsed or Version("0"), version


@lru_cache(maxsize=65536)
def parse(version: str) -> Version | None:
    """Return a version; None if the text is none. Cached, because stacks share their releases."""
    try:
        return Version(version)
    except InvalidVersion:
        return None


def nearest(view: View, older: Sequence[Lock], newer: Sequence[Lock]) -> tuple[Lock, Lock]:
    """Return the two stacks that differ in the fewest main packages and are nearest by date."""
    return min(product(older, newer), key=lambda pair: distance(view, *pair))


def distance(view: View, one: Lock, other: Lock) -> tuple[int, int]:
    """Return in how many main packages two stacks differ, and the days between them."""
    before, after = view.versions[one.stack], view.versions[other.stack]
    days = abs((other.as_of - one.as_of).days)
    return sum(before.get(name) != after.get(name) for name in SHOWN), days


def released_stacks(view: View) -> list[Lock]:
    """Return the stacks of releases on which something was judged, the newest first."""
    return [
        lock
        for lock in view.newest_first
        if not lock.prereleases
        and any(row.passed is not None for row in view.cells.get(lock.stack, {}).values())
    ]


def ran_with(view: View, name: str) -> Releases:
    """Return the stacks on which each release of a package ran, the newest release first.

    Stacks of pre-releases are left out.
    """
    ran = {lock.stack for lock in released_stacks(view)}
    return {
        version: stacks
        for version, locks in reversed(by_release(view, name).items())
        if (stacks := [lock for lock in locks if lock.stack in ran][:MOST_STACKS])
    }


def newest_pair(
    view: View, releases: Mapping[str, Sequence[Lock]]
) -> tuple[str, Lock, Lock] | None:
    """Return the release before the newest one that ran most of the same cells.

    Returns:
        The release, and the most similar stacks with it and with the newest one; None if no
        earlier release ran so many. ``releases`` has the newest first.
    """
    after, *_ = releases.values()

    @cache
    def judged(stack: str) -> set[Place]:
        return {place for place, row in view.cells[stack].items() if row.passed is not None}

    needed = MOST * max(len(judged(lock.stack)) for lock in after)
    for version, before in islice(releases.items(), 1, None):
        pairs = [
            (one, other)
            for one, other in product(before, after)
            if len(judged(one.stack) & judged(other.stack)) >= needed
        ]
        if pairs:
            return version, *min(pairs, key=lambda pair: distance(view, *pair))
    return None


# The grid


class Note(NamedTuple):
    """A footnote of the grid."""

    words: str
    about: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """For each scenario, or for none, links: text and address."""


class Square(NamedTuple):
    """A cell of the grid: the variants of a scenario with a release."""

    kind: str
    mark: str
    """A symbol and a number or a word; it says everything that the colour of ``kind`` says."""
    of: str = ""
    target: str = ""
    notes: tuple[Note, ...] = ()
    shares: tuple[float, float] = (0, 0)
    """The part of the judged variants that pass on all stacks, and on some stacks."""
    mended: int = 0
    """Variants that pass, and failed with the last release before with which they were judged."""
    broken: int = 0
    disputed: tuple[tuple[str, str], ...] = ()
    """How many pass on each stack, with its evidence, if the stacks disagree."""


class GridLine(NamedTuple):
    """A release in the grid."""

    release: str
    stacks: Sequence[Lock]
    """The newest first."""
    notes: tuple[Note, ...]
    squares: tuple[Square, ...]


class Column(NamedTuple):
    """A scenario in the grid."""

    scenario: str
    variants: int
    notes: tuple[Note, ...]

    @property
    def name(self) -> Markup:
        """Its name, which may be broken into lines."""
        return ready(breakable(self.scenario))


@dataclass(frozen=True)
class Grid:
    """Releases of a package down, the newest first, and scenarios across."""

    device: str
    columns: Sequence[Column]
    lines: Sequence[GridLine]
    absent: Sequence[str]
    """Scenarios of which nothing was judged with any of these releases."""

    @cached_property
    def notes(self) -> dict[Note, int]:
        """The notes with their numbers, in the order of reading."""
        found: dict[Note, None] = {}
        for column in self.columns:
            found |= dict.fromkeys(column.notes)
        for line in self.lines:
            found |= dict.fromkeys(line.notes)
            for square in line.squares:
                found |= dict.fromkeys(square.notes)
        return {note: number for number, note in enumerate(found, start=1)}

    def numbers(self, notes: Sequence[Note]) -> str:
        """Return the numbers of some notes."""
        return ",".join(str(self.notes[note]) for note in notes)


def grid(view: View, name: str, releases: Releases, section: Section) -> Grid:
    """Return the grid of a package for a section."""
    kept = {release: without_coming(locks) for release, locks in releases.items()}
    columns: list[tuple[Column, list[Square]]] = []
    absent = []
    for scenario, members in groupby(section.lines, key=lambda line: line.scenario):
        lines = list(members)
        squares = list(column(view, lines, kept))
        if all(square.kind in "nx" for square in squares):
            absent.append(scenario)
            continue
        asks = any(name in names_of(needs(view, line.place)) for line in lines)
        notes = () if asks else (Note(f"No variant of it asks for {name} by name."),)
        columns.append((Column(scenario, len(lines), notes), squares))
    columns.sort(key=lambda each: bool(each[0].notes))
    lines_ = [
        grid_line(release, locks, kept[release], [(c, squares[n]) for c, squares in columns])
        for n, (release, locks) in enumerate(releases.items())
    ]
    return Grid(section.device, [each for each, _ in columns], lines_[::-1], absent)


def without_coming(locks: Sequence[Lock]) -> list[Lock]:
    """Return the stacks of a release that count: those without pre-releases, if there are any."""
    return [lock for lock in locks if not lock.prereleases] or list(locks)


def needs(view: View, place: Place) -> tuple[str, ...]:
    """Return the requirements of a variant; empty if its scenario does not list it any more."""
    known = view.table.scenarios.get(place[0])
    return (
        next((each.needs for each in known.variants if each.name == place[1]), ()) if known else ()
    )


def column(view: View, lines: Sequence[Line], kept: Releases) -> Iterator[Square]:
    """Yield the cells of a scenario, the oldest release first."""
    release_of = {lock.stack: release for release, locks in kept.items() for lock in locks}
    found: dict[str, list[Row]] = defaultdict(list)
    for line in lines:
        for row in reversed(view.by_place[line.place]):
            if row.stack in release_of:
                found[release_of[row.stack]].append(row)
    before: dict[Place, Ends] = {}
    for release in kept:
        ends: dict[Place, Ends] = defaultdict(set)
        for row in found[release]:
            if row.passed is not None:
                ends[row.scenario, row.variant, row.device].add(row.passed)
        yield square(found[release], ends, before)
        before |= ends


def square(rows: Sequence[Row], ends: Mapping[Place, Ends], before: Mapping[Place, Ends]) -> Square:
    """Return a cell, from its cells of the matrix and how the variants ended before."""
    if not rows:
        return Square("x", "", "not run")
    target = UP + links.evidence_of(rows[0].stack, rows[0].scenario)
    judged = list(ends.values())
    if not judged:
        notes = tuple(Note(in_words(each)) for each in sorted({row.outcome for row in rows}))
        return Square("n", "– not", "judged", target, notes)
    every, some = judged.count({True}), sum(True in each for each in judged)
    kind, symbol = counted_as(every, len(judged)) if every == some else ("h", "◐")
    passing = str(every) if every == some else f"{every}–{some}"
    changes = [(before.get(place), each) for place, each in ends.items()]
    return Square(
        kind,
        f"{symbol} {passing}",
        f"of {len(judged)}",
        target,
        shares=(every / len(judged), some / len(judged)),
        mended=changes.count(({False}, {True})),
        broken=changes.count(({True}, {False})),
        notes=tuple(never_began(rows)),
        disputed=tuple(disputed(rows)) if every != some else (),
    )


def never_began(rows: Sequence[Row]) -> Iterator[Note]:
    """Yield a note for each reason why stacks could not even import the libraries."""
    failed = [row for row in rows if row.passed is False and phase_of(row.outcome) in NEVER_BEGAN]
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for stack, row in {row.stack: row for row in failed}.items():
        found[f"{in_words(row.outcome)} {row.message}"].append((stack, UP + links.evidence(row)))
    for words, stacks in found.items():
        yield Note(words, (("", tuple(stacks)),))


def disputed(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield each number of variants that pass, with a stack on which it is so, and its evidence."""
    found: dict[str, list[str]] = defaultdict(list)
    for stack in dict.fromkeys(row.stack for row in rows):
        judged = [row.passed for row in rows if row.stack == stack and row.passed is not None]
        if judged:
            found[f"{judged.count(True)} of {len(judged)}"].append(stack)
    for words, stacks in found.items():
        yield f"{words} on {few(stacks, 1)}", UP + links.evidence_of(stacks[0], rows[0].scenario)


def grid_line(
    release: str,
    locks: Sequence[Lock],
    kept: Sequence[Lock],
    squares: Sequence[tuple[Column, Square]],
) -> GridLine:
    """Return a release with its notes. One note tells all scenarios on which stacks disagree."""
    coming = tuple((lock.stack, UP + links.stack(lock.stack)) for lock in locks if lock.prereleases)
    words = (
        "Only with pre-releases, so the sentences below leave it out:"
        if all(lock.prereleases for lock in kept)
        else "Also beside pre-releases of other packages, which are not counted:"
    )
    notes = (Note(words, (("", coming),)),) if coming else ()
    about = tuple((c.scenario, each.disputed) for c, each in squares if each.disputed)
    dispute = Note(f"Stacks with {release} disagree, because other packages differ.", about)
    return GridLine(
        release,
        kept,
        notes,
        tuple(
            each._replace(notes=(*each.notes, dispute)) if each.disputed else each
            for _, each in squares
        ),
    )


# Since which release


class Reason(NamedTuple):
    """What is known of a change between two neighbouring releases of the stacks."""

    step: str
    """The two releases; empty if the words name them."""
    words: str
    exact: bool = False
    """The release was found by running one after the other."""
    elsewhere: bool = False
    """Another package was found to be behind it."""


class Told(NamedTuple):
    """Since which release variants work, in a sentence."""

    words: str
    reasons: tuple[Reason, ...] = ()
    newest: Version | None = None
    """The release with the newest change; None if nothing changes with this package."""


class Course(NamedTuple):
    """Variants of which the same is told."""

    told: Told
    places: Sequence[Place]
    evidence: str
    """The address of a cell that shows the exact release; empty if none is known."""


class Story(NamedTuple):
    """A scenario along the releases of a package."""

    scenario: str
    device: str
    changing: Sequence[Course]
    """What changes with releases of this package, as far as is known; the newest change first."""
    others: Sequence[Course]

    @property
    def summary(self) -> str:
        """How many other variants there are of each kind."""
        counts: Counter[str] = Counter()
        for each in self.others:
            counts[each.told.words.split()[0]] += len(each.places)
        return listed(
            f"{number} {verb if number == 1 else verb[:-1]} {OTHERS[verb]}"
            for verb, number in sorted(counts.items())
        )


OTHERS = {
    "changes": "with other packages",
    "differs": "between stacks",
    "fails": "in all releases tested",
    "trains": "in all releases tested",
}
"""What is told of other variants, by its first word."""


class Ended(NamedTuple):
    """How a variant ends along the releases of a package."""

    package: str
    spells: list[Spell]

    @property
    def explains(self) -> bool:
        """Whether the releases of this package alone can tell how it ends."""
        return len(self.spells) > 1 and all(each.passes is not None for each in self.spells)


@dataclass(frozen=True)
class Tale:
    """What can be told of variants along the releases of a package.

    Which packages may be behind a change is the rule of ``judge.versions.of_needed``, as on the
    pages of messages.
    """

    view: View
    name: str
    exact: Sequence[Behaviour]
    """What is known of single releases, of all packages."""
    _pairs: dict[tuple[str, ...], tuple[Lock, Lock]] = field(default_factory=dict)

    @cached_property
    def locks(self) -> dict[str, Lock]:
        """The stacks of releases that have the package."""
        return {
            lock.stack: lock
            for lock in self.view.table.locks
            if not lock.prereleases and parse(self.view.versions[lock.stack].get(self.name, ""))
        }

    @cached_property
    def versions(self) -> dict[str, dict[str, Version]]:
        """The release of each of these stacks, by package."""
        return {
            name: {
                stack: parsed
                for stack in self.locks
                if (parsed := parse(self.view.versions[stack].get(name, "")))
            }
            for name in dict.fromkeys((self.name, *SHOWN))
        }

    @cached_property
    def known(self) -> dict[Place, list[Behaviour]]:
        """What is known of single releases, by variant."""
        found: dict[Place, list[Behaviour]] = defaultdict(list)
        for each in self.exact:
            found[each.cell.scenario, each.cell.variant, each.cell.device].append(each)
        return found

    @cached_property
    def turnings(self) -> dict[str, list[Turning]]:
        """What was found between two stacks, by cell."""
        found: dict[str, list[Turning]] = defaultdict(list)
        for each in self.view.table.turnings:
            found[each.cell].append(each)
        return found

    def stories(self, section: Section) -> list[Story]:
        """Return the scenarios of a section, those that change with the package first."""
        return sorted(self.told_stories(section), key=lambda each: not each.changing)

    def told_stories(self, section: Section) -> Iterator[Story]:
        """Yield the scenarios of a section of which something was judged."""
        for scenario, members in groupby(section.lines, key=lambda line: line.scenario):
            found: dict[Told, list[Place]] = defaultdict(list)
            for line in members:
                if (told := self.told(line.place)) is not None:
                    found[told].append(line.place)
            courses = [self.course(told, places) for told, places in found.items()]
            if courses:
                changing = [each for each in courses if each.told.newest]
                others = [each for each in courses if not each.told.newest]
                changing.sort(key=lambda each: (each.told.newest, len(each.places)), reverse=True)
                others.sort(key=lambda each: (*each.told.words.split()[:1], -len(each.places)))
                yield Story(scenario, section.device, changing, others)

    def course(self, told: Told, places: Sequence[Place]) -> Course:
        """Return variants of which the same is told, with the evidence of the first one."""
        cells = [each.cell for each in self.known[places[0]] if each.package == self.name]
        is_exact = any(each.exact for each in told.reasons)
        return Course(told, places, UP + links.evidence(cells[0]) if is_exact else "")

    def told(self, place: Place) -> Told | None:
        """Return what can be told of a variant; None if it was judged with no release."""
        rows = [
            row
            for row in self.view.by_place[place]
            if row.passed is not None and row.stack in self.locks
        ]
        ends = {row.passed for row in rows}
        if len(ends) <= 1:
            tested = len({self.versions[self.name][row.stack] for row in rows})
            where = f"all {tested} releases" if tested > 1 else "the only release"
            return (
                Told(f"{'trains' if True in ends else 'fails'} in {where} tested") if ends else None
            )
        explaining = [
            each for name in self.versions if (each := self.along(name, rows)) and each.explains
        ]
        likely = of_needed(explaining, needs(self.view, place))
        exact = [each for each in self.known[place] if each.package == self.name]
        mine = [each for each in (explaining if exact else likely) if each.package == self.name]
        if not mine:
            newest = max((Version(each.release) for each in exact), default=None)
            words = (
                f"changes with {newest}, but {self.name} alone does not tell all stacks apart"
                if exact and not likely
                else self.followed(place, likely)
            )
            return Told(words, tuple(map(found_exactly, exact)), newest)
        changes = list(pairwise(mine[0].spells))
        reasons = [self.reason(place, *change, {row.stack for row in rows}) for change in changes]
        if all(each.elsewhere for each in reasons):
            return Told("changes with another package", merged(reasons))
        return Told(self.sentence(place, mine[0]), merged(reasons), changes[-1][1].first)

    def along(self, name: str, rows: Sequence[Row]) -> Ended | None:
        """Return how a variant ends along a package; None if a stack does not have it."""
        versions = self.versions[name]
        if any(row.stack not in versions for row in rows):
            return None
        return Ended(name, spells((versions[row.stack], row.passed is True) for row in rows))

    def followed(self, place: Place, likely: Sequence[Ended]) -> str:
        """Return which other packages a variant follows; those that are known exactly, if any."""
        known = [
            ended
            for ended in likely
            if any(self.found(place, ended.package, *each) for each in pairwise(ended.spells))
        ]
        told = [f"with {e.package}: {self.sentence(place, e)}" for e in known or likely]
        if not told:
            return "differs between stacks, and no main package tells them apart"
        return f"changes {'; or '.join(told)}"

    def found(self, place: Place, name: str, one: Spell, other: Spell) -> Behaviour | None:
        """Return the release that was found to change a variant between two spells."""
        for each in self.known[place]:
            last, release = parse(each.last), parse(each.release)
            is_near = last and release and one.last <= last and release <= other.first
            if each.package == name and is_near:
                return each
        return None

    def sentence(self, place: Place, ended: Ended) -> str:
        """Return with which releases of a package a variant works."""
        found = [self.found(place, ended.package, *each) for each in pairwise(ended.spells)]
        words = []
        for spell, begun, over in zip(ended.spells[1:], found, [*found[1:], None], strict=True):
            verb = "works" if spell.passes else "broken"
            first = (begun.release, " (exact)") if begun else (str(spell.first), "")
            last = (over.last, " (exact)") if over else (str(spell.last), "")
            if spell is ended.spells[-1]:
                words.append(f"{verb} since {''.join(first)}")
            elif first[0] == last[0]:
                words.append(f"{verb} with {''.join(first)}")
            else:
                words.append(f"{verb} from {''.join(first)} to {''.join(last)}")
        return ", ".join(words)

    def reason(self, place: Place, one: Spell, other: Spell, judged: set[str]) -> Reason:
        """Return what is known of a change."""
        if found := self.found(place, self.name, one, other):
            return found_exactly(found)
        step = f"{one.last} → {other.first}"
        older, newer = (
            [stack for stack in self.locks if stack in judged if mine[stack] == release]
            for mine in (self.versions[self.name],)
            for release in (one.last, other.first)
        )
        for turning in self.turnings["/".join(place)]:
            if set(turning.stacks) & set(older) and set(turning.stacks) & set(newer):
                together = " + ".join(each.package for each in turning.edges).split(" + ")
                if self.name not in together:
                    return Reason(
                        step, f"not {self.name}, but between {turning.answer}", elsewhere=True
                    )
                others = listed(each for each in together if each != self.name)
                return Reason(step, f"{others} moved too, and it is not known which of them it is")
        before, after = self.pair(older, newer)
        moved = [
            each.name
            for each in self.view.moves.between(before.stack, after.stack)
            if each.name in SHOWN and each.name != self.name
        ]
        return Reason(
            step, f"{listed(moved)} moved too" if moved else "no other main package moved"
        )

    def pair(self, older: Sequence[str], newer: Sequence[str]) -> tuple[Lock, Lock]:
        """Return the two most similar stacks. Most variants were judged on the same ones."""
        key = (*older, "", *newer)
        if key not in self._pairs:
            of = [[self.locks[stack] for stack in each] for each in (older, newer)]
            self._pairs[key] = nearest(self.view, *of)
        return self._pairs[key]


def found_exactly(found: Behaviour) -> Reason:
    """Return a release that was found by running it and the one before."""
    before = f"with {found.last}" if found.last else "without it"
    together = "" if found.alone else ", if other packages move too"
    words = f"{found.was} {before}, {found.now} with {found.release}{together}{found.doubt}"
    return Reason("", words, exact=True)


def merged(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Return the reasons, those with the same words as one."""
    steps: dict[Reason, list[str]] = defaultdict(list)
    for each in reasons:
        steps[each._replace(step="")].append(each.step)
    return tuple(each._replace(step=listed(of)) for each, of in steps.items())
