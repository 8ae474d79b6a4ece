"""Find what the package index has and the matrix lacks, and update the generated stacks."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gradmatrix.core.errors import UserError, did_you_mean
from gradmatrix.core.observation import Frozen
from gradmatrix.stacks import generated, pairwise
from gradmatrix.stacks.generate import (
    TWINS,
    Pairwise,
    Releases,
    Window,
    joined,
    names_of,
    pinned,
    safe_name,
)
from gradmatrix.stacks.index import IndexUnreachable, newest
from gradmatrix.stacks.lock import refuted
from gradmatrix.stacks.pairwise import Coverage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gradmatrix.core.model import Lock, Stack
    from gradmatrix.run.project import Project
    from gradmatrix.stacks.generate import Placed
    from gradmatrix.stacks.index import Index, Release
    from gradmatrix.stacks.pairwise import Array

    Offered = Mapping[str, Sequence[Release]]


class Fresh(Frozen, frozen=True):
    """A release that is newer than every locked one."""

    package: str
    version: str
    released: dt.date | None
    locked: str | None
    """The newest one in a lock; None if no lock has the package."""


class Yanked(Frozen, frozen=True):
    """A locked release that its authors have withdrawn."""

    stack: str
    package: str
    version: str
    moves: bool
    """Whether the next lock of the stack drops it: a stack of today that does not pin it."""


class Combined(Frozen, frozen=True):
    """How many combinations the stacks of a [generate.pairwise] table have."""

    table: str
    coverage: Coverage


class News(Frozen, frozen=True, kw_only=True):
    """What is new on a day."""

    schema: Literal[1] = 1
    day: dt.date
    """The day of the index's answers: before today if it was not asked, or did not answer."""
    releases: tuple[Fresh, ...] = ()
    added: tuple[str, ...] = ()
    """Generated stacks that the matrix lacked."""
    unread: tuple[str, ...] = ()
    """Tables that changed, or whose base did, since their stacks were looked up.

    Nothing runs until they are looked up again.
    """
    removed: tuple[str, ...] = ()
    """Generated stacks that no rule gives now; their records are kept."""
    unlocked: tuple[str, ...] = ()
    """Stacks whose lock does not fit their requirements, without the new ones."""
    yanked: tuple[Yanked, ...] = ()
    combined: tuple[Combined, ...] = ()
    notices: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    """Notes about the index's answers: they are old, or a kept one was damaged."""
    suggestion: str = ""
    """Tables for matrix.toml, which is never written."""

    @property
    def anything(self) -> bool:
        """Whether there is something to do."""
        moving = any(yanked.moves for yanked in self.yanked)
        return bool(
            self.releases or self.unread or self.added or self.removed or self.unlocked or moving
        )


@dataclass(frozen=True)
class Reading:
    """The matrix, and what its rules give with the releases in the package index."""

    asked: frozenset[str]
    """Packages that stacks or rules ask for by name."""
    offered: Offered
    given: dict[Placed, tuple[Stack, ...]]
    """The stacks that each rule gives."""
    arrays: dict[Placed, Array]
    """What is known about the combinations of each [generate.pairwise] table."""
    now: tuple[Stack, ...]
    """Every stack, those of the rules included."""
    added: tuple[Stack, ...]
    removed: tuple[Stack, ...]
    locks: dict[str, Lock]


def refresh(project: Project, today: dt.date, *, write: bool) -> News:
    """Read the index on ``today``, and ``write`` the generated stacks.

    Raises:
        UserError: if the index does not answer and nothing is kept, or if its kept answers are too
            old to remove stacks.
    """
    reading = read(project, today)
    news = report(project, reading, today)
    if write:
        _check_removed(reading.removed, project.index)
        generated.write(project.generated_file, reading.given, reading.arrays)
    return news


def read(project: Project, today: dt.date) -> Reading:
    """Ask the index for every package of the matrix, and apply the rules."""
    typed = project.typed_matrix
    rules = generated.asking(typed)
    known = project.known_stacks
    locks = {lock.stack: lock for lock in project.known_locks(stack.name for stack in known)}
    asked = {name for stack in typed.stacks for name in names_of(stack.requirements)}
    asked |= {name for rule in rules for name in generated.packages_of(rule)}
    needed = asked.union(package.name for lock in locks.values() for package in lock.packages)
    offered = _offered(project, sorted(needed))
    for rule in rules:
        check(rule, offered)
    given = {rule: generated.given_by(rule, offered, today) for rule in rules}
    arrays = {}
    for rule in rules:
        if isinstance(rule.rule, Pairwise):
            chosen = pairwise.choose(
                rule.rule,
                offered,
                generated.chosen_in(project.generated_file),
                today - dt.timedelta(days=1),
                lambda stack: refuted(stack, project.index),
            )
            given[rule], arrays[rule] = chosen.stacks, chosen.array
    pairs = [(rule.place, stack) for rule, stacks in given.items() for stack in stacks]
    now = joined(project.matrix_file, typed.stacks, pairs)
    added, removed = generated.differing(known, now)
    return Reading(
        frozenset(asked), offered, given, arrays, tuple(now), tuple(added), tuple(removed), locks
    )


def report(project: Project, reading: Reading, today: dt.date) -> News:
    """What is new in ``reading``, compared with what is written and locked."""
    kept = generated.kept(project.generated_file)
    names = {stack.name for stack in (*reading.now, *reading.removed)}
    gone = [
        stack.name for entry in kept.entries for stack in entry.stacks if stack.name not in names
    ]
    added = {stack.name for stack in reading.added}
    released = [lock for lock in reading.locks.values() if not lock.prereleases]
    fresh = tuple(fresh_releases(sorted(reading.asked), released, fitting(reading), today))
    typed = [stack for stack in project.typed_matrix.stacks if not stack.prereleases]
    stale_since = project.index.stale_since
    return News(
        day=today if stale_since is None else stale_since.date(),
        index=project.index.notices,
        releases=fresh,
        added=tuple(stack.name for stack in reading.added),
        unread=tuple(rule.place for rule in reading.given if kept.of(rule) is None),
        removed=tuple(dict.fromkeys((*(stack.name for stack in reading.removed), *gone))),
        unlocked=tuple(
            stack.name
            for stack in reading.now
            if stack.name not in added and project.current_lock(stack) is None
        ),
        yanked=tuple(yanked(reading.now, reading.locks, reading.offered)),
        combined=tuple(
            Combined(table=rule.place, coverage=pairwise.coverage(array, reading.given[rule]))
            for rule, array in reading.arrays.items()
        ),
        notices=tuple(notices(reading)),
        suggestion=suggestion(fresh, typed, {stack.name.lower() for stack in reading.now}),
    )


def fitting(reading: Reading) -> Offered:
    """The releases that fit a Python of the stacks which ask for them."""
    pythons: dict[str, set[str]] = {}
    for stack in reading.now:
        for name in names_of(stack.requirements):
            pythons.setdefault(name, set()).add(stack.python)
    return {
        name: tuple(r for r in reading.offered[name] if r.fits(pythons.get(name, ())))
        for name in reading.asked
    }


def notices(reading: Reading) -> Iterator[str]:
    """Rules that give nothing, and packages about which the index says too little."""
    for rule, stacks in reading.given.items():
        if not stacks:
            yield f"{rule.place} gives no stack: no release meets its conditions"
    for name in sorted(reading.asked):
        if problem := _silence(reading.offered[name]):
            yield f"the package index {problem} of {name}, so new releases cannot be seen"


def fresh_releases(
    names: Iterable[str], locks: Iterable[Lock], offered: Offered, today: dt.date
) -> Iterator[Fresh]:
    """The newest release of each package, unless a lock has it or a newer one."""
    locks = tuple(locks)
    for name in names:
        top = newest(offered[name], today)
        known = [Version(version) for lock in locks if (version := lock.version(name)) is not None]
        if top is not None and Version(top.version) > max(known, default=Version("0.dev0")):
            locked = str(max(known)) if known else None
            yield Fresh(package=name, version=top.version, released=top.uploaded, locked=locked)


def yanked(
    stacks: Iterable[Stack], locks: Mapping[str, Lock], offered: Offered
) -> Iterator[Yanked]:
    """The locked releases that were withdrawn later."""
    withdrawn = {
        (name, Version(r.version))
        for name, releases in offered.items()
        for r in releases
        if r.yanked
    }
    for stack in stacks:
        for package in locks[stack.name].packages if stack.name in locks else ():
            if (package.name, Version(package.version)) in withdrawn:
                moves = stack.as_of == "today" and not _asked_exactly(stack, package.name)
                yield Yanked(
                    stack=stack.name, package=package.name, version=package.version, moves=moves
                )


def _asked_exactly(stack: Stack, name: str) -> bool:
    """Whether ``stack`` pins the package: then a yanked release is taken too."""
    pins = (r for r in map(Requirement, stack.requirements) if canonicalize_name(r.name) == name)
    return any(
        s.operator in {"==", "==="} and not s.version.endswith("*")
        for r in pins
        for s in r.specifier
    )


def suggestion(fresh: Iterable[Fresh], stacks: Sequence[Stack], taken: Collection[str] = ()) -> str:
    """A [[stacks]] table for each fresh release, with the requirements of the newest stack.

    A release whose name is ``taken`` gets none: the matrix has this stack, and only needs a lock.
    """
    tables = []
    suggested: set[str] = set()
    for release in fresh:
        asking = [stack for stack in stacks if release.package in names_of(stack.requirements)]
        if not asking or TWINS.get(release.package) in suggested:
            continue
        suggested.add(release.package)
        name = safe_name(f"{release.package}-{release.version}")
        if name.lower() in taken:
            continue
        base = max(asking, key=lambda stack: dt.date.max if stack.as_of == "today" else stack.as_of)
        day = (
            release.released
            if base.as_of == "today"
            else max(filter(None, (base.as_of, release.released)))
        )
        requirements = pinned(base.requirements, {release.package: release.version})
        tables.append(
            f'[[stacks]]\nname = "{name}"\npython = "{base.python}"\n'
            f"as_of = {day}\nrequirements = {json.dumps(requirements)}\n"
        )
    return "\n".join(tables)


def _silence(releases: Sequence[Release]) -> str:
    """Why new ones among ``releases`` cannot be seen; empty if they can."""
    if not releases:
        return "has no release"
    return "" if any(release.uploaded for release in releases) else "has no dates for the releases"


def check(placed: Placed, offered: Offered) -> None:
    """UserError if the index does not have what ``placed`` names."""
    missing = next((name for name in generated.packages_of(placed) if not offered[name]), None)
    if missing is not None:
        raise UserError(
            f"The package index has no package {missing!r}, which {placed.place} names.",
            cause="its name is misspelled, or another index has it",
            next_step="correct matrix.toml, or set UV_DEFAULT_INDEX",
        )
    undated = next(
        (name for name in generated.packages_of(placed) if _silence(offered[name])), None
    )
    if undated is not None and isinstance(placed.rule, Window):
        raise UserError(
            f"The package index has no dates for the releases of {undated!r}.",
            cause=f"{placed.place} needs them, and its simple API has no upload times (PEP 700)",
            next_step="set UV_DEFAULT_INDEX to an index that has them",
        )
    if isinstance(placed.rule, Releases):
        _check_exactly(placed.place, placed.rule.name, placed.rule.exactly, offered)
    if isinstance(placed.rule, Pairwise):
        for name, asked in placed.rule.by_name.items():
            _check_exactly(placed.place, name, () if isinstance(asked, str) else asked, offered)


def _check_exactly(place: str, package: str, asked: Iterable[str], offered: Offered) -> None:
    versions = {Version(release.version): release.version for release in offered[package]}
    unknown = next((text for text in asked if Version(text) not in versions), None)
    if unknown is not None:
        raise UserError(
            f"There is no release {unknown!r} of {package}, which {place} asks for exactly.",
            cause=did_you_mean(unknown, versions.values()),
            next_step="correct matrix.toml",
        )


def _check_removed(removed: Iterable[Stack], index: Index) -> None:
    """UserError if stacks would be removed because of old answers of the index."""
    names = [stack.name for stack in removed]
    if names and index.stale_since is not None:
        raise UserError(
            "Nothing was written: old answers of the package index would remove these stacks: "
            f"{', '.join(names)}.",
            cause=", ".join(index.notices),
            next_step="run it again when the index answers; refresh --check writes nothing",
        )


def _offered(project: Project, names: Sequence[str]) -> dict[str, tuple[Release, ...]]:
    try:
        return project.index.many(names)
    except IndexUnreachable as error:
        raise UserError(
            f"{error}",
            cause="there is no network, or the index is down; nothing was written",
            next_step="Run it again later. Answers that were kept are used if the index is silent.",
        ) from error
