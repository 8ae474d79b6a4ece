"""Both sides of an upgrade, resolved: locks of their own, and what can be said where there is none."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gradmatrix.compare import requirements as wishes
from gradmatrix.compare.sides import Given
from gradmatrix.core.errors import UserError, did_you_mean, without_credentials
from gradmatrix.core.model import LockedPackage, Stack
from gradmatrix.core.outcomes import CONFLICT, NO_RELEASE
from gradmatrix.stacks import lock as lock_text
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.environment import ONLY_CUDA, TRITON
from gradmatrix.stacks.generate import TWINS
from gradmatrix.stacks.index import IndexUnreachable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path as AnyPath

    from gradmatrix.compare.requirements import Wish
    from gradmatrix.core.model import Lock
    from gradmatrix.stacks.index import Index, Release

MARK = "+"
"""What the names of our own stacks begin with: none of the matrix can."""
DIGITS = 12


@dataclass(frozen=True)
class Resolved:
    """A side with its lock; its stack's name is where its environment and its records are found."""

    given: Given
    lock: Lock
    locks: AnyPath
    """The folder of the lock's text."""

    @property
    def own(self) -> bool:
        """Whether it is none of the matrix, and what is made of it is ours to delete."""
        return self.lock.stack.startswith(MARK)


def resolved(given: Given, index: Index, folder: AnyPath, matrix_locks: AnyPath) -> Resolved:
    """The lock of a side, in ``folder`` unless it is the matrix's own; UserError where there is none."""
    if given.interpreter is not None and given.lock is not None:
        return Resolved(given, of_releases(renamed(given.lock), index), folder)
    if given.lock is not None and given.locks is not None:
        if given.locks == matrix_locks:
            return Resolved(given, given.lock, matrix_locks)
        return kept(given, given.lock, given.preferred, folder)
    lock, text = attempt(given, index)
    if lock.failure is not None:
        raise UserError(
            f"{given.name} does not resolve: {lock.failure.outcome}.",
            cause=lock.failure.message,
            next_step="mend what it asks for and run again; nothing was run, nothing recorded was touched",
        )
    asked_for = msgspec.structs.replace(
        lock, requirements=given.asked
    )  # of a lock not each of its pins
    return kept(given, asked_for, text, folder)


def candidate(
    baseline: Given,
    asked: Sequence[Wish],
    index: Index,
    folder: AnyPath,
    *,
    latest: bool,
    as_of: dt.date | None,
    stacks: Sequence[str] = (),
) -> Resolved:
    """The baseline with what was wished of it, resolved; UserError that says what could be instead.

    ``stacks`` are names that a mistyped wish may have meant.
    """
    wanted = wishes.with_twins(asked, baseline.asked)
    given = changed(baseline, wanted, latest=latest, as_of=as_of)
    lock, text = attempt(given, index)
    if lock.failure is not None:
        raise impossible(baseline, given, wanted, lock, index, stacks=stacks)
    check_granted(wanted, lock)
    found = kept(given, lock, text, folder)
    return (
        replace(found, lock=as_built(found.lock, baseline.lock))
        if baseline.interpreter and baseline.lock
        else found
    )


def check_granted(wanted: Iterable[Wish], lock: Lock) -> None:
    """UserError where a wish is not in the lock: a marker of the baseline or of the wish kept it out."""
    for each in wanted:
        version, parsed = lock.version(each.name), Requirement(each.requirement)
        if version is None and each.twin:
            continue
        if version is None or not (
            parsed.url or parsed.specifier.contains(version, prereleases=True)
        ):
            raise UserError(
                f"--to {each.text} has no effect on Python {lock.python}.",
                cause=f"a marker keeps it out: the candidate would have {version or 'no'} {each.name}",
                next_step="give --python a version for which it is asked for, or correct the marker; nothing was run",
            )


def as_built(lock: Lock, there: Lock) -> Lock:
    """The lock without the CUDA libraries that an environment's own build of torch has no use for.

    They are in every lock, whatever build a machine gets; beside what is installed they would seem to be added.
    """
    if any(package.name.startswith(ONLY_CUDA) for package in there.packages):
        return lock
    of_cuda = (*ONLY_CUDA, *TRITON)
    kept_ones = tuple(package for package in lock.packages if not package.name.startswith(of_cuda))
    return msgspec.structs.replace(lock, packages=kept_ones)


def changed(
    baseline: Given, wanted: Sequence[Wish], *, latest: bool, as_of: dt.date | None
) -> Given:
    """What is asked for by the candidate: of the baseline's versions those are kept that nobody wants changed."""
    names = {each.name for each in wanted}
    words = [wishes.LATEST] * latest + [each.text for each in wanted if not each.twin]
    twins = tuple(
        f"{each.name} moves with {TWINS[each.name]}: one library" for each in wanted if each.twin
    )
    return Given(
        name=", ".join(words),
        python=baseline.python,
        as_of=as_of or "today",
        requirements=(requirements := wishes.applied(baseline.asked, wanted, latest=latest)),
        asked=requirements,
        constraints=() if latest else wishes.without(baseline.constraints, names),
        preferred=""
        if latest
        else lock_text.without(baseline.preferred, lambda name: canonicalize_name(name) in names),
        notices=twins,
    )


def attempt(given: Given, index: Index) -> tuple[Lock, str]:
    """The lock of a side and its text, kept nowhere; a lock with a failure where there is none."""
    stack = Stack(
        name="side", python=given.python, requirements=given.requirements, as_of=given.as_of
    )
    bounds = locks.Bounds(constraints=given.constraints, preferred=given.preferred)
    with tempfile.TemporaryDirectory() as scratch:
        lock = locks.resolve(stack, index, Path(scratch), bounds)
        path = locks.requirements_path(stack.name, Path(scratch))
        return lock, path.read_text(encoding="utf-8") if lock.failure is None else ""


def renamed(lock: Lock) -> Lock:
    """The lock under a name of its own: of its content, so that the same side finds its environment and records."""
    content = hashlib.sha256(f"{lock.python}\0{lock.digest}".encode()).hexdigest()
    shown = tuple(without_place(text) for text in lock.requirements)
    return msgspec.structs.replace(lock, stack=f"{MARK}{content[:DIGITS]}", requirements=shown)


def of_releases(lock: Lock, index: Index) -> Lock:
    """What is installed as releases with their days: which build of one it is, is told beside it."""
    versions = {package.name: package.version.partition("+")[0] for package in lock.packages}
    try:
        releases = index.many(versions, lock.as_of)
    except IndexUnreachable:
        releases = {}
    days = {
        name: {each.version: each.uploaded for each in known} for name, known in releases.items()
    }
    packages = tuple(
        LockedPackage(name=name, version=version, released=days.get(name, {}).get(version))
        for name, version in versions.items()
    )
    return msgspec.structs.replace(lock, packages=packages)


def without_place(text: str) -> str:
    """A requirement without credentials and without the folder of a file: locks are shown in reports."""
    return re.sub(r"\bfile://\S*/", "", without_credentials(text)) if " @ " in text else text


def kept(given: Given, lock: Lock, text: str, folder: AnyPath) -> Resolved:
    """The lock written into ``folder`` under a name of its own."""
    own = renamed(lock)
    locks.write(own, text, folder)
    return Resolved(given, own, folder)


def impossible(
    baseline: Given,
    given: Given,
    wanted: Sequence[Wish],
    lock: Lock,
    index: Index,
    *,
    stacks: Sequence[str],
) -> UserError:
    """Why there is no such candidate, and the nearest one that there is."""
    assert lock.failure is not None
    failure = lock.failure
    if failure.outcome == locks.UNREACHABLE and any(
        Requirement(each.requirement).url for each in wanted
    ):
        return UserError(
            f"{given.name} cannot be had.",
            cause=failure.message,
            next_step="see that the address is right, that this machine reaches it, and that the project builds",
        )
    if failure.outcome not in {CONFLICT, NO_RELEASE}:
        return UserError(
            f"{given.name} was not resolved: {failure.outcome}.",
            cause=failure.message,
            next_step="mend that and run the same command again; nothing recorded was touched",
        )
    for each in wanted:
        missing = not_there(each, baseline, given, index, stacks)
        if missing is not None:
            return missing
    newest = newest_that_resolves(baseline, given, {each.name for each in wanted}, index)
    lifted = must_move(baseline, given, wanted, index)
    told = [newest] if newest else ["no version of it resolves beside what the baseline asks for"]
    if lifted:
        told.append(
            f"or let {' and '.join(lifted)} move too: {' '.join(f'--to {name}' for name in lifted)}"
        )
    return UserError(
        f"{given.name} is impossible beside what {baseline.name} asks for.",
        cause=explained(failure.message),
        next_step="; ".join(told) + ". Nothing was run, nothing recorded was touched",
    )


def explained(message: str) -> str:
    """The resolver's explanation without the words around it, and without its hints: the Python is not to change."""
    told = re.sub(
        r"^No solution found when resolving dependencies(?: for split \(.*?\))?: ", "", message
    )
    return told.partition(" hint: ")[0]


def not_there(
    wish: Wish, baseline: Given, given: Given, index: Index, stacks: Sequence[str]
) -> UserError | None:
    """A complaint about a package or a release that the index does not have; None where it has it."""
    parsed = Requirement(wish.requirement)
    if parsed.url:
        return None
    releases = index.releases(wish.name)
    if not releases:
        package = did_you_mean(wish.name, sorted(names_of(baseline)))
        word = did_you_mean(wish.text, [*stacks, wishes.LATEST])
        return UserError(
            f"--to {wish.text}: the package index has no package {wish.name}.",
            cause=next((each for each in (package, word) if each.startswith("perhaps")), package),
            next_step="correct the name and run again; nothing was run",
        )
    day = dt.datetime.now(dt.UTC).date() if given.as_of == "today" else given.as_of
    there = [each for each in releases if each.uploaded is None or each.uploaded <= day]
    if any(parsed.specifier.contains(each.version, prereleases=True) for each in there):
        return None
    newest = max(
        (each for each in there if not each.prerelease),
        key=lambda each: Version(each.version),
        default=None,
    )
    cause = (
        f"the newest release of {wish.name} on {day} is {newest.version} ({newest.uploaded})"
        if newest
        else ""
    )
    near = nearest(parsed, there)
    return UserError(
        f"--to {wish.text}: there is no such release.",
        cause=cause or f"{wish.name} had no release on {day}",
        next_step=f"--to {wish.name}=={near}, or --to {wish.name} for the newest"
        if near
        else "name another version",
    )


def nearest(wanted: Requirement, there: Iterable[Release]) -> str | None:
    """The release that lies nearest to the version asked for: the one before it, or else the first."""
    versions = sorted(
        Version(each.version) for each in there if not (each.yanked or each.prerelease)
    )
    try:
        asked = [Version(each.version.removesuffix(".*")) for each in wanted.specifier]
    except InvalidVersion:
        asked = []
    lower = [each for each in versions if asked and each <= asked[0]]
    return str((lower or versions)[-1]) if versions else None


def names_of(given: Given) -> set[str]:
    """Canonical names of all packages that a side has, as far as it says."""
    found = {
        str(canonicalize_name(Requirement(text).name))
        for text in (*given.requirements, *given.asked)
    }
    return found | {package.name for package in given.lock.packages} if given.lock else found


def newest_that_resolves(
    baseline: Given, given: Given, names: Collection[str], index: Index
) -> str | None:
    """In words the newest version at most as high as the one asked for that resolves; None where none does."""
    instead = wishes.relaxed(given.requirements, names)
    if instead == given.requirements:
        return None
    lock, _ = attempt(replace(given, requirements=instead), index)
    found = [f"{name}=={version}" for name in sorted(names) if (version := lock.version(name))]
    if lock.failure is not None or not found:
        return None
    if baseline.lock is not None and all(
        lock.version(name) == baseline.lock.version(name) for name in names
    ):
        return f"nothing newer resolves than what is there, {', '.join(found)}"
    return f"the newest that resolves is {', '.join(found)}: {' '.join(f'--to {each}' for each in found)}"


def must_move(baseline: Given, given: Given, wanted: Sequence[Wish], index: Index) -> list[str]:
    """The packages whose bounds in the baseline stand in the way: one if one is enough, else all; empty if none."""
    names = {each.name for each in wanted}
    bound = wishes.bounds((*baseline.asked, *baseline.constraints), names)
    for lifted in [*([name] for name in dict.fromkeys(bound)), list(dict.fromkeys(bound))]:
        if not lifted:
            continue
        freed = [wishes.wish(name) for name in lifted]
        instead = changed(baseline, (*wanted, *freed), latest=False, as_of=None)
        lock, _ = attempt(replace(instead, as_of=given.as_of), index)
        if lock.failure is None:
            return lifted
    return []
