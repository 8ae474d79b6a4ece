"""Pure: which published stack an environment is most like, what sets those apart that fail as it does, what helps.

Pure: what moved between two locks, transitive packages too.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gradmatrix.core.model import SHOWN
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import Outcome, Phase
from gradmatrix.judge.causes import remedy_for
from gradmatrix.judge.flips import place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gradmatrix.core.model import Lock, Published, Record
    from gradmatrix.judge.causes import Remedy
    from gradmatrix.judge.diagnosis import Diagnosis

    Versions = Mapping[str, Version]
    "Of the packages that count, those that there are."
    from gradmatrix.core.model import LockedPackage


MISSING = 60
"""Distance of a package that only one side has: nearer than another major release."""
MOST_NAMES = 4
MOST_BOUNDS = 3
MOST_EXCEPTIONS = 2


class Bound(Frozen, frozen=True):
    """A release of one package beyond which, in one direction, every published stack fails alike, and no other one."""

    package: str
    fails: str
    """The failing release next to the bound."""
    passes: str
    """The release next to it on the other side."""
    older: bool
    """The older releases fail."""
    here: str
    """The environment's own release: on the failing side, or between the two."""

    def __str__(self) -> str:
        here = Version(self.here)
        low, high = sorted((Version(self.fails), Version(self.passes)))
        between = f"; {self.here} lies between" if low < here < high else ""
        if self.older:
            return f"{self.package} up to {self.fails} (not from {self.passes} on{between})"
        return f"{self.package} from {self.fails} on (not up to {self.passes}{between})"


class Likeness(Frozen, frozen=True):
    """How one failing cell of an environment compares with the published stacks."""

    words: str
    """Continues "it fails one …"."""
    stacks: tuple[str, ...] = ()
    """The published stacks that fail in the same way."""
    bounds: tuple[Bound, ...] = ()


def versions(lock: Lock) -> dict[str, Version]:
    """The versions that count."""
    return parsed(lock.version)


def parsed(version_of: Callable[[str], str | None]) -> dict[str, Version]:
    """The versions that count, of those that ``version_of`` gives."""
    found = {}
    for name in SHOWN:
        try:
            found[name] = Version(version_of(name) or "")
        except InvalidVersion:  # none, or one that was made by hand
            continue
    return found


def distance(one: Versions, other: Versions) -> int:
    """How unlike two sets of versions are: a major release counts more than a minor one, that more than a patch."""
    return sum(_apart(one.get(name), other.get(name)) for name in SHOWN)


def _apart(one: Version | None, other: Version | None) -> int:
    if one is None or other is None:
        return 0 if one is other else MISSING
    if one.major != other.major:
        return 100 + 10 * abs(one.major - other.major)
    if one.minor != other.minor:
        return 10 + min(80, abs(one.minor - other.minor))
    return int(one.release != other.release)


def nearest(here: Versions, locks: Iterable[Lock]) -> Lock | None:
    """The published stack with the smallest distance, of several the newest; None where nothing is published."""
    return min(
        locks,
        key=lambda lock: (distance(here, versions(lock)), -lock.as_of.toordinal(), lock.stack),
        default=None,
    )


def remedy_near(
    published: Published, diagnosis: Diagnosis, environment: Mapping[str, str]
) -> Remedy | None:
    """A remedy seen on the published stack that is nearest to the versions of ``environment``, by package."""
    lock = nearest(parsed(environment.get), published.locks)
    if lock is None:
        return None
    return remedy_for(
        diagnosis.cause, published.scenarios, published.records, stack=lock.stack, same_stack=False
    )


def like(
    outcome: str,
    records: Iterable[Record],
    stacks: Mapping[str, Versions],
    here: Versions,
    needs: Iterable[str] = (),
) -> Likeness:
    """How a cell that ends with ``outcome`` in the environment ends on the published ``stacks``.

    ``records`` are those of this cell on them, ``needs`` the requirements of its variant.
    """
    judged = {record.cell.stack: record for record in records if record.passed is not None}
    failing = tuple(
        s for s in stacks if s in judged and judged[s].outcome == outcome and not judged[s].passed
    )
    others = [stack for stack in stacks if stack in judged and stack not in failing]
    if not failing:
        return Likeness(words=_unlike(outcome, [judged[stack] for stack in others]))
    if not others:
        return Likeness(
            words=f"as all {len(failing)} published stacks do"
            if len(failing) > 1
            else _on(failing),
            stacks=failing,
        )
    bounds = separating(failing, others, stacks, here, needs)
    if not bounds:
        few = len(others) <= MOST_EXCEPTIONS < MOST_NAMES < len(failing)
        words = f"as on every published stack but {' and '.join(others)}" if few else _on(failing)
        return Likeness(words=words, stacks=failing)
    words = f"as every published stack with {' or '.join(map(str, bounds))} does"
    unsure = "; the published stacks do not tell which of these it is" if len(bounds) > 1 else ""
    return Likeness(words=words + unsure, stacks=failing, bounds=bounds)


def _unlike(outcome: str, others: list[Record]) -> str:
    """What is to be said of a failure that no published stack has."""
    if Outcome.parse(outcome).phase is Phase.IMPORT:
        return "that cannot even be imported here"
    otherwise = sorted({record.outcome for record in others if record.passed is False})
    if otherwise:
        return f"in another way than published stacks do ({', '.join(otherwise)})"
    return "that no published stack fails" if others else "that no published stack was judged on"


def separating(
    failing: Iterable[str],
    others: Iterable[str],
    stacks: Mapping[str, Versions],
    here: Versions,
    needs: Iterable[str] = (),
) -> tuple[Bound, ...]:
    """The bounds that set the failing stacks apart, with the environment not on the other side.

    Releases go up together as time goes by, so that several packages may do; those that the variant needs come alone.
    """
    bad, good = [stacks[name] for name in failing], [stacks[name] for name in others]
    found = [bound for name in SHOWN if (bound := _bound(name, bad, good, here)) is not None]
    asked = {canonicalize_name(Requirement(text).name) for text in needs}
    return tuple([bound for bound in found if bound.package in asked] or found)[:MOST_BOUNDS]


def _bound(name: str, bad: list[Versions], good: list[Versions], here: Versions) -> Bound | None:
    own = here.get(name)
    if own is None or any(name not in each for each in (*bad, *good)):
        return None
    fails, passes = [each[name] for each in bad], [each[name] for each in good]
    if max(fails) < min(passes) and own < min(passes):
        return Bound(
            package=name, fails=str(max(fails)), passes=str(min(passes)), older=True, here=str(own)
        )
    if min(fails) > max(passes) and own > max(passes):
        return Bound(
            package=name, fails=str(min(fails)), passes=str(max(passes)), older=False, here=str(own)
        )
    return None


def _on(stacks: tuple[str, ...]) -> str:
    more = f" and {len(stacks) - MOST_NAMES} more" if len(stacks) > MOST_NAMES else ""
    return f"as on {', '.join(stacks[:MOST_NAMES])}{more}"


class PackageMove(Frozen, frozen=True):
    """A package that differs between two locks, or their Python."""

    name: str
    before: str | None
    """Its version in the baseline's lock; None where that does not have it."""
    after: str | None
    before_released: dt.date | None = None
    after_released: dt.date | None = None
    direct: bool = False
    """A stack asks for it by name; else it came with another package."""

    def __str__(self) -> str:
        return f"{self.name} {self.before or '(none)'} → {self.after or '(none)'}"


def packages_moved(baseline: Lock, candidate: Lock) -> tuple[PackageMove, ...]:
    """What differs: Python, then what a stack asks for by name, then the rest; torch and its companions first."""
    before, after = packages(baseline), packages(candidate)
    direct = asked_for(baseline) | asked_for(candidate)
    found = [
        moved(name, before.get(name), after.get(name), direct=name in direct)
        for name in before.keys() | after.keys()
        if version(before.get(name)) != version(after.get(name))
    ]
    found.sort(key=lambda each: (not each.direct, place(each.name), each.name))
    if baseline.python != candidate.python:
        python = PackageMove(
            name="python", before=baseline.python, after=candidate.python, direct=True
        )
        found.insert(0, python)
    return tuple(found)


def packages(lock: Lock) -> dict[str, LockedPackage]:
    """The packages of a lock by name."""
    return {package.name: package for package in lock.packages}


def version(package: LockedPackage | None) -> str | None:
    """Its version; None for none."""
    return package.version if package is not None else None


def moved(
    name: str, before: LockedPackage | None, after: LockedPackage | None, *, direct: bool
) -> PackageMove:
    """A package that differs, with the days of its releases where the locks know them."""
    return PackageMove(
        name=name,
        before=version(before),
        after=version(after),
        before_released=before.released if before is not None else None,
        after_released=after.released if after is not None else None,
        direct=direct,
    )


def asked_for(lock: Lock) -> set[str]:
    """Names of the packages that the stack's requirements name; what is no name (a path, a URL) is left out."""
    names = set()
    for text in lock.requirements:
        try:
            names.add(str(canonicalize_name(Requirement(text).name)))
        except InvalidRequirement:
            continue
    return names
