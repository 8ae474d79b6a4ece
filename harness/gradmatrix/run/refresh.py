"""What the package index has that the matrix has not, and the generated stacks written anew."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Literal

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gradmatrix.core.errors import UserError, did_you_mean
from gradmatrix.core.observation import Frozen
from gradmatrix.stacks import generated
from gradmatrix.stacks.generate import TWINS, Releases, Window, joined, names_of, pinned, safe_name
from gradmatrix.stacks.index import IndexUnreachable, newest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gradmatrix.core.model import Lock, Stack
    from gradmatrix.run.project import Project
    from gradmatrix.stacks.generate import Placed
    from gradmatrix.stacks.index import Index, Release

    Offered = Mapping[str, Sequence[Release]]


class Fresh(Frozen, frozen=True):
    """A release that is newer than all that is locked."""

    package: str
    version: str
    released: dt.date | None
    locked: str | None
    """The newest that any lock has; None where no lock has the package."""


class Yanked(Frozen, frozen=True):
    """A locked release that its authors have withdrawn."""

    stack: str
    package: str
    version: str
    moves: bool
    """Whether the next lock of the stack is without it: that of today. A lock of another day stays what it was."""


class News(Frozen, frozen=True, kw_only=True):
    """What is new on a day."""

    schema: Literal[1] = 1
    day: dt.date
    """Of what the package index says: before today where it was not asked, or did not answer."""
    releases: tuple[Fresh, ...] = ()
    added: tuple[str, ...] = ()
    """Generated stacks that the matrix had not."""
    unread: tuple[str, ...] = ()
    """Tables that were changed, or whose base was, since their stacks were looked up: nothing runs until they are."""
    removed: tuple[str, ...] = ()
    """Generated stacks that no rule gives any more; what has been recorded of them is kept."""
    unlocked: tuple[str, ...] = ()
    """Stacks of an ended period, or typed ones, those of today too, that have no current lock."""
    yanked: tuple[Yanked, ...] = ()
    notices: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    """What is to be known of the index's answers: that they are old, that a kept one was damaged."""
    suggestion: str = ""
    """Tables for matrix.toml, which is never written."""

    @property
    def anything(self) -> bool:
        """Whether there is something to do."""
        moving = any(yanked.moves for yanked in self.yanked)
        return bool(
            self.releases or self.unread or self.added or self.removed or self.unlocked or moving
        )


def refresh(project: Project, today: dt.date, *, write: bool) -> News:
    """Read the index on ``today``, and ``write`` the generated stacks.

    UserError where it does not answer and nothing is kept, or where what is kept is too old to write by.
    """
    typed = project.typed_matrix
    rules = generated.asking(typed)
    locks = {
        lock.stack: lock
        for lock in project.known_locks(stack.name for stack in project.known_stacks)
    }
    asked = {name for stack in typed.stacks for name in names_of(stack.requirements)}
    asked |= {name for rule in rules for name in generated.packages_of(rule)}
    needed = asked.union(package.name for lock in locks.values() for package in lock.packages)
    offered = _offered(project, sorted(needed))
    for rule in rules:
        check(rule, offered)
    given = {rule: generated.given_by(rule, offered, today) for rule in rules}
    pairs = [(rule.place, stack) for rule, stacks in given.items() for stack in stacks]
    now = joined(
        project.matrix_file, typed.stacks, pairs
    )  # a collision is told before anything is written
    added, removed = generated.differing(project.known_stacks, now)
    kept = generated.kept(project.generated_file)
    unread = tuple(rule.place for rule in rules if kept.of(rule) is None)
    names = {stack.name for stack in (*now, *removed)}
    gone = [
        stack.name for entry in kept.entries for stack in entry.stacks if stack.name not in names
    ]
    if write:
        _check_removed(removed, project.index)
        generated.write(project.generated_file, given)
    pythons: dict[str, set[str]] = {}
    for stack in now:
        for name in names_of(stack.requirements):
            pythons.setdefault(name, set()).add(stack.python)
    fitting = {
        name: tuple(r for r in offered[name] if r.fits(pythons.get(name, ()))) for name in asked
    }
    fresh = tuple(fresh_releases(sorted(asked), locks.values(), fitting, today))
    new = {stack.name for stack in added}
    silent = [(name, said) for name in sorted(asked) if (said := _silence(offered[name]))]
    stale_since = project.index.stale_since
    return News(
        day=today if stale_since is None else stale_since.date(),
        index=project.index.notices,
        releases=fresh,
        added=tuple(stack.name for stack in added),
        unread=unread,
        removed=tuple(dict.fromkeys((*(stack.name for stack in removed), *gone))),
        unlocked=tuple(
            s.name for s in now if s.name not in new and project.current_lock(s) is None
        ),
        yanked=tuple(yanked(now, locks, offered)),
        notices=(
            *(
                f"{rule.place} gives no stack: no release is as it asks"
                for rule in rules
                if not given[rule]
            ),
            *(
                f"the package index {said} of {name}: what is new cannot be told"
                for name, said in silent
            ),
        ),
        suggestion=suggestion(fresh, typed.stacks, {stack.name.lower() for stack in now}),
    )


def fresh_releases(
    names: Iterable[str], locks: Iterable[Lock], offered: Offered, today: dt.date
) -> Iterator[Fresh]:
    """The newest release of each package, as a plain install takes it, where no lock has it or a newer one."""
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
    """The locked releases that have been withdrawn since."""
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
    """Whether ``stack`` pins the package: then its release is taken, yanked or not."""
    pins = (r for r in map(Requirement, stack.requirements) if canonicalize_name(r.name) == name)
    return any(
        s.operator in {"==", "==="} and not s.version.endswith("*")
        for r in pins
        for s in r.specifier
    )


def suggestion(fresh: Iterable[Fresh], stacks: Sequence[Stack], taken: Collection[str] = ()) -> str:
    """A [[stacks]] table for each fresh release, over the requirements of the newest stack that has the package.

    None where the matrix has a stack of that name (``taken``) already: what it lacks is a lock.
    """
    tables = []
    told: set[str] = set()
    for release in fresh:
        asking = [stack for stack in stacks if release.package in names_of(stack.requirements)]
        if not asking or TWINS.get(release.package) in told:
            continue
        told.add(release.package)
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
    """What keeps ``releases`` from telling what is new; empty where nothing does."""
    if not releases:
        return "has no release"
    return "" if any(release.uploaded for release in releases) else "has no dates for the releases"


def check(placed: Placed, offered: Offered) -> None:
    """UserError where the index does not have what ``placed`` names."""
    missing = next((name for name in generated.packages_of(placed) if not offered[name]), None)
    if missing is not None:
        raise UserError(
            f"The package index has no package {missing!r}, which {placed.place} names.",
            cause="it is misspelt, or another index has it",
            next_step="correct matrix.toml, or set UV_DEFAULT_INDEX",
        )
    undated = next(
        (name for name in generated.packages_of(placed) if _silence(offered[name])), None
    )
    if undated is not None and isinstance(placed.rule, Window):
        raise UserError(
            f"The package index has no dates for the releases of {undated!r}, from which {placed.place} follows.",
            cause="its simple API is without upload times (PEP 700)",
            next_step="set UV_DEFAULT_INDEX to an index that has them",
        )
    if isinstance(placed.rule, Releases):
        _check_exactly(placed.place, placed.rule, offered[placed.rule.name])


def _check_exactly(place: str, rule: Releases, releases: Iterable[Release]) -> None:
    versions = {Version(release.version): release.version for release in releases}
    unknown = next((text for text in rule.exactly if Version(text) not in versions), None)
    if unknown is not None:
        raise UserError(
            f"There is no release {unknown!r} of {rule.package}, which {place} asks for exactly.",
            cause=did_you_mean(unknown, versions.values()),
            next_step="correct matrix.toml",
        )


def _check_removed(removed: Iterable[Stack], index: Index) -> None:
    """UserError where stacks would go that an old answer may only not know of yet."""
    names = [stack.name for stack in removed]
    if names and index.stale_since is not None:
        raise UserError(
            f"Nothing was written: by what is kept of the package index these stacks would go: {', '.join(names)}.",
            cause=", ".join(index.notices),
            next_step="run it again with the index; refresh --check writes nothing",
        )


def _offered(project: Project, names: Sequence[str]) -> dict[str, tuple[Release, ...]]:
    try:
        return project.index.many(names)
    except IndexUnreachable as error:
        raise UserError(
            f"{error}",
            cause="there is no network, or the index is down; nothing was written",
            next_step="run it again later; what was asked before is kept, and used where the index does not answer",
        ) from error


def as_json(news: News) -> bytes:
    """``news`` as data."""
    return msgspec.json.format(msgspec.json.encode(news), indent=2)
