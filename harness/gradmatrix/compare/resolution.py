"""Both sides of an upgrade, resolved into locks; and what to suggest if a side has no solution."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import re
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gradmatrix.compare import requirements
from gradmatrix.compare.sides import Side
from gradmatrix.core.errors import UserError, did_you_mean, without_credentials
from gradmatrix.core.model import LockedPackage, Stack
from gradmatrix.core.outcomes import CONFLICT, INDEX_UNREACHABLE, NO_RELEASE
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.environment import MARK, ONLY_CUDA, is_of_torch
from gradmatrix.stacks.generate import TWINS
from gradmatrix.stacks.index import IndexUnreachable
from gradmatrix.stacks.lock import NeedsBuild

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gradmatrix.compare.requirements import Edit
    from gradmatrix.core.model import Lock
    from gradmatrix.judge.versions import Contents
    from gradmatrix.stacks.index import Index, Release

DIGITS = 12


@dataclass(frozen=True)
class Resolved:
    """A side with its lock. The name of the lock's stack is that of its environment and records."""

    side: Side
    lock: Lock
    locks: Path
    """The folder of the lock's text."""
    contents: Contents = field(default_factory=dict)
    """What tells its packages from others of the same version."""

    @property
    def own(self) -> bool:
        """Whether it is not a stack of the matrix, so that its environment may be deleted."""
        return self.lock.stack.startswith(MARK)


def resolved(side: Side, index: Index, folder: Path, matrix_locks: Path) -> Resolved:
    """A side with its lock.

    Args:
        side: what to resolve
        index: the package index
        folder: where the lock is written, unless it belongs to the matrix
        matrix_locks: the folder of the matrix's locks

    Raises:
        UserError: if there is no solution
    """
    if side.interpreter is not None and side.lock is not None:
        return Resolved(side, with_days(renamed(side.lock), index), folder, side.contents)
    if side.lock is not None and side.locks is not None:
        if side.locks == matrix_locks:
            return Resolved(side, side.lock, matrix_locks, locks.contents(side.preferred))
        return kept(side, side.lock, side.preferred, folder)
    lock, text = buildable(side, index)
    if lock.failure is not None:
        raise UserError(
            f"{side.name} does not resolve: {lock.failure.outcome}.",
            cause=lock.failure.message,
            next_step=f"{step_after(lock.failure.outcome)} and run the command again; "
            "nothing was run",
        )
    lock = msgspec.structs.replace(lock, requirements=side.asked)  # without the pins of a lock
    return kept(side, lock, text, folder)


def candidate(
    baseline: Side,
    edits: Sequence[Edit],
    index: Index,
    folder: Path,
    *,
    latest: bool,
    as_of: dt.date | None,
    stacks: Sequence[str] = (),
) -> Resolved:
    """The baseline with edits, resolved.

    Args:
        baseline: the side to edit
        edits: packages at other versions
        index: the package index
        folder: where the lock is written
        latest: whether everything else moves to its newest release
        as_of: the day of the index; None for today
        stacks: names that a mistyped edit may have meant

    Raises:
        UserError: if there is no solution; it says what would be possible instead
    """
    edits = requirements.with_twins(edits, baseline.asked)
    side = changed(baseline, edits, latest=latest, as_of=as_of)
    lock, text = buildable(side, index)
    if lock.failure is not None:
        raise impossible(baseline, side, edits, lock, index, stacks=stacks)
    check_edits(edits, lock)
    return kept(side, lock, text, folder)


def check_edits(edits: Iterable[Edit], lock: Lock) -> None:
    """UserError if an edit is not in the lock because a marker excludes it."""
    for each in edits:
        version, parsed = lock.version(each.name), Requirement(each.requirement)
        if version is None and each.twin:
            continue
        if version is None or not (
            parsed.url or parsed.specifier.contains(version, prereleases=True)
        ):
            raise UserError(
                f"--to {each.text} has no effect on Python {lock.python}.",
                cause="a marker excludes it: "
                f"the candidate would have {version or 'no'} {each.name}",
                next_step="give --python another version, or correct the marker; nothing was run",
            )


def beside(one: Resolved, other: Resolved) -> Resolved:
    """The first side as it is compared with the other one, which may be an environment."""
    if other.side.interpreter is None:
        return one
    return replace(one, lock=as_built(one.lock, other.lock))


def as_built(lock: Lock, there: Lock) -> Lock:
    """The lock without CUDA libraries, if the lock ``there`` of an environment has none either.

    Every lock lists them, whatever build a machine gets. The report would call them added packages.
    """
    if any(package.name.startswith(ONLY_CUDA) for package in there.packages):
        return lock
    kept_ones = tuple(package for package in lock.packages if not is_of_torch(package.name))
    return msgspec.structs.replace(lock, packages=kept_ones)


def changed(baseline: Side, edits: Sequence[Edit], *, latest: bool, as_of: dt.date | None) -> Side:
    """The candidate: it keeps the versions of the baseline if nothing asks for a change."""
    names = {each.name for each in edits}
    words = [requirements.LATEST] * latest + [each.text for each in edits if not each.twin]
    asked = requirements.edited(baseline.asked, edits, latest=latest)
    preferred = locks.without(baseline.preferred, lambda name: canonicalize_name(name) in names)
    return Side(
        name=", ".join(words),
        python=baseline.python,
        as_of=as_of or "today",
        requirements=asked,
        asked=asked,
        constraints=() if latest else requirements.without(baseline.constraints, names),
        preferred="" if latest else preferred,
        build=baseline.build,
        notices=tuple(
            f"{each.name} moves together with {TWINS[each.name]}: they are one library"
            for each in edits
            if each.twin
        ),
    )


def buildable(side: Side, index: Index) -> tuple[Lock, str]:
    """As :func:`attempt`; UserError if a package must be built and --build does not name it."""
    try:
        return attempt(side, index)
    except NeedsBuild as error:
        raise UserError(
            f"{side.name} cannot be resolved from wheels alone.",
            cause=error.cause,
            next_step="to allow it, give " + " ".join(f"--build {name}" for name in error.packages),
        ) from error


def attempt(side: Side, index: Index) -> tuple[Lock, str]:
    """The lock of a side and its text; a lock with a failure if there is no solution.

    Raises:
        NeedsBuild: if a package must be built and the side does not allow it
    """
    stack = Stack(
        name="side",
        python=side.python,
        requirements=side.requirements,
        as_of=side.as_of,
        build=side.build,
    )
    bounds = locks.Bounds(constraints=side.constraints, preferred=side.preferred)
    with tempfile.TemporaryDirectory() as scratch:
        lock = locks.resolve(stack, index, Path(scratch), bounds)
        path = locks.requirements_path(stack.name, Path(scratch))
        return lock, path.read_text(encoding="utf-8") if lock.failure is None else ""


def renamed(lock: Lock) -> Lock:
    """The lock named after its content, so that the same side finds its environment and records."""
    content = hashlib.sha256(f"{lock.python}\0{lock.digest}".encode()).hexdigest()
    shown = tuple(without_place(text) for text in lock.requirements)
    return msgspec.structs.replace(lock, stack=f"{MARK}{content[:DIGITS]}", requirements=shown)


def with_days(lock: Lock, index: Index) -> Lock:
    """The lock with the days of its releases, if the index answers."""
    versions = {package.name: package.version.partition("+")[0] for package in lock.packages}
    try:
        releases = index.many(versions, lock.as_of)
    except IndexUnreachable:
        return lock
    days = {
        name: {each.version: each.uploaded for each in known} for name, known in releases.items()
    }
    packages = tuple(
        LockedPackage(
            name=each.name,
            version=each.version,
            released=days.get(each.name, {}).get(versions[each.name]),
        )
        for each in lock.packages
    )
    return msgspec.structs.replace(lock, packages=packages)


def without_place(text: str) -> str:
    """A requirement without credentials and folders, since reports show locks."""
    return re.sub(r"\bfile://\S*/", "", without_credentials(text)) if " @ " in text else text


def kept(side: Side, lock: Lock, text: str, folder: Path) -> Resolved:
    """The lock, written into ``folder`` under a name of its own."""
    own = renamed(lock)
    locks.write(own, text, folder)
    return Resolved(side, own, folder, locks.contents(text))


def impossible(
    baseline: Side,
    side: Side,
    edits: Sequence[Edit],
    lock: Lock,
    index: Index,
    *,
    stacks: Sequence[str],
) -> UserError:
    """An error: why there is no such candidate, and what would be possible instead."""
    assert lock.failure is not None
    failure = lock.failure
    if failure.outcome == INDEX_UNREACHABLE and any(
        Requirement(each.requirement).url for each in edits
    ):
        return UserError(
            f"{side.name} cannot be fetched.",
            cause=failure.message,
            next_step="check the address, the network, and that the project builds",
        )
    if failure.outcome not in {CONFLICT, NO_RELEASE}:
        return UserError(
            f"{side.name} was not resolved: {failure.outcome}.",
            cause=failure.message,
            next_step=f"{step_after(failure.outcome)} and run the command again; nothing was run",
        )
    for each in edits:
        missing = not_there(each, baseline, side, index, stacks)
        if missing is not None:
            return missing
    newest = newest_that_resolves(baseline, side, {each.name for each in edits}, index)
    lifted = must_move(baseline, side, edits, index)
    options = [newest or "no version of it is compatible with what the baseline asks for"]
    if lifted:
        words = " ".join(f"--to {name}" for name in lifted)
        options.append(f"or let {' and '.join(lifted)} move too: {words}")
    return UserError(
        f"{side.name} is not compatible with what {baseline.name} asks for.",
        cause=explained(failure.message),
        next_step="; ".join(options) + ". Nothing was run",
    )


def step_after(outcome: str) -> str:
    """What to do about a failed resolution that is not the fault of an edit."""
    if outcome == INDEX_UNREACHABLE:
        return "check the network, and the address and the credentials of the package index,"
    return "correct what it asks for"


def explained(message: str) -> str:
    """The resolver's explanation without the words around it and without its hints."""
    words = re.sub(
        r"^No solution found when resolving dependencies(?: for split \(.*?\))?: ", "", message
    )
    return words.partition(" hint: ")[0]


def not_there(
    edit: Edit, baseline: Side, side: Side, index: Index, stacks: Sequence[str]
) -> UserError | None:
    """An error about a package or release that the index does not have; None if it has it."""
    parsed = Requirement(edit.requirement)
    if parsed.url:
        return None
    releases = index.releases(edit.name)
    if not releases:
        package = did_you_mean(edit.name, sorted(names_of(baseline)))
        word = did_you_mean(edit.text, [*stacks, requirements.LATEST])
        return UserError(
            f"--to {edit.text}: there is no stack, file or folder of this name, and the package "
            f"index has no package {edit.name}.",
            cause=next((each for each in (package, word) if each.startswith("perhaps")), word),
            next_step="correct the name and run the command again; nothing was run",
        )
    day = dt.datetime.now(dt.UTC).date() if side.as_of == "today" else side.as_of
    there = [each for each in releases if each.uploaded is None or each.uploaded <= day]
    if any(parsed.specifier.contains(each.version, prereleases=True) for each in there):
        return None
    newest = max(
        (each for each in there if not each.prerelease),
        key=lambda each: Version(each.version),
        default=None,
    )
    cause = (
        f"the newest release of {edit.name} on {day} is {newest.version} ({newest.uploaded})"
        if newest
        else ""
    )
    near = nearest(parsed, there)
    return UserError(
        f"--to {edit.text}: there is no such release.",
        cause=cause or f"{edit.name} had no release on {day}",
        next_step=f"--to {edit.name}=={near}, or --to {edit.name} for the newest"
        if near
        else "name another version",
    )


def nearest(wanted: Requirement, there: Iterable[Release]) -> str | None:
    """The newest release up to the version asked for; else the newest of all."""
    versions = sorted(
        Version(each.version) for each in there if not (each.yanked or each.prerelease)
    )
    try:
        asked = [Version(each.version.removesuffix(".*")) for each in wanted.specifier]
    except InvalidVersion:
        asked = []
    lower = [each for each in versions if asked and each <= asked[0]]
    return str((lower or versions)[-1]) if versions else None


def names_of(side: Side) -> set[str]:
    """Canonical names of the packages that a side has, as far as it is known."""
    found = {
        str(canonicalize_name(Requirement(text).name)) for text in (*side.requirements, *side.asked)
    }
    return found | {package.name for package in side.lock.packages} if side.lock else found


def newest_that_resolves(
    baseline: Side, side: Side, names: Collection[str], index: Index
) -> str | None:
    """A sentence: the newest version that resolves, up to the one asked for.

    None if no version does.
    """
    instead = requirements.relaxed(side.requirements, names)
    if instead == side.requirements:
        return None
    try:
        lock, _ = attempt(replace(side, requirements=instead), index)
    except NeedsBuild:
        return None
    found = [f"{name}=={version}" for name in sorted(names) if (version := lock.version(name))]
    if lock.failure is not None or not found:
        return None
    if baseline.lock is not None and all(
        lock.version(name) == baseline.lock.version(name) for name in names
    ):
        return f"nothing newer resolves than {', '.join(found)}, which the baseline has"
    words = " ".join(f"--to {each}" for each in found)
    return f"the newest that resolves is {', '.join(found)}: {words}"


def must_move(baseline: Side, side: Side, edits: Sequence[Edit], index: Index) -> list[str]:
    """The packages that must lose their bounds for the edits to resolve: one, or else all.

    Empty if that does not help.
    """
    names = {each.name for each in edits}
    bound = requirements.bounds((*baseline.asked, *baseline.constraints), names)
    for lifted in [*([name] for name in dict.fromkeys(bound)), list(dict.fromkeys(bound))]:
        if not lifted:
            continue
        freed = [requirements.parse_edit(name) for name in lifted]
        instead = changed(baseline, (*edits, *freed), latest=False, as_of=None)
        with contextlib.suppress(NeedsBuild):
            lock, _ = attempt(replace(instead, as_of=side.as_of), index)
            if lock.failure is None:
                return lifted
    return []
