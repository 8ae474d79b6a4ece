"""The versions of stacks: which are alike, which releases separate them, which packages moved."""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gradmatrix.core.model import SHOWN
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import Outcome, Phase
from gradmatrix.core.text import few, listed
from gradmatrix.judge.causes import on_stack, remedy_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gradmatrix.core.model import Lock, Published, Record
    from gradmatrix.judge.causes import Remedy
    from gradmatrix.judge.wording import Diagnosis

    class HasPackage(Protocol):
        """Something that is known of a package."""

        @property
        def package(self) -> str:
            """Its name."""

    OfPackage = TypeVar("OfPackage", bound=HasPackage)
    Versions = Mapping[str, Version]
    "By package; a package that a stack does not have is left out."

MISSING = 60
"""Distance of a package that only one side has: less than that of a major release."""
LAST = 99_999_999
"""Sorts behind every development release."""
MOST_NAMES = 4
MOST_BOUNDS = 3
MOST_EXCEPTIONS = 2
FIRST = (
    "python",
    "torch",
    "lightning",
    "pytorch-lightning",
    "transformers",
    "trl",
    "peft",
    "accelerate",
)
"""What is named before other packages."""


class Bound(Frozen, frozen=True):
    """Two releases of a package: all stacks on one side of them fail, those on the other do not."""

    package: str
    fails: str
    """The failing release that is next to the bound."""
    passes: str
    """The release next to it on the other side."""
    older: bool
    """The older releases fail."""
    here: str = ""
    """The release of the environment that is compared with the stacks, if there is one."""

    def __str__(self) -> str:
        low, high = sorted((Version(self.fails), Version(self.passes)))
        is_between = bool(self.here) and low < Version(self.here) < high
        between = f"; {self.here} lies between" if is_between else ""
        if self.older:
            return f"{self.package} up to {self.fails} (not from {self.passes} on{between})"
        return f"{self.package} from {self.fails} on (not up to {self.passes}{between})"

    def explains(self, release: Version) -> bool:
        """Whether this release is not on the side that passes."""
        passes = Version(self.passes)
        return release < passes if self.older else release > passes


class Likeness(Frozen, frozen=True):
    """How one failing cell of an environment compares with the published stacks."""

    words: str
    """Continues "it fails …"."""
    stacks: tuple[str, ...] = ()
    """The published stacks that fail in the same way."""
    bounds: tuple[Bound, ...] = ()


def versions_of(lock: Lock) -> dict[str, Version]:
    """The versions of the main packages of a lock."""
    return parse_versions(lock.version)


def parse_versions(version_of: Callable[[str], str | None]) -> dict[str, Version]:
    """The versions of the main packages, as far as ``version_of`` knows them."""
    found = {}
    for name in SHOWN:
        try:
            found[name] = Version(version_of(name) or "")
        except InvalidVersion:  # there is none, or somebody made it by hand
            continue
    return found


def sortable(version: str) -> str | None:
    """A text that sorts as the version does; None if it is none that packaging knows.

    Four numbers of the release, the stage (0 dev, 1 a, 2 b, 3 rc, 4 final), and the numbers of its
    pre-release, post-release and development release.
    """
    try:
        known = Version(version)
    except InvalidVersion:
        return None
    kind, number = known.pre or ("", 0)
    early = known.dev is not None and known.post is None
    stage = {"a": 1, "b": 2, "rc": 3}.get(kind, 0 if early else 4)
    post = 0 if known.post is None else known.post + 1
    dev = LAST if known.dev is None else known.dev
    release = ".".join(f"{part:05}" for part in (*known.release, 0, 0, 0)[:4])
    return f"{known.epoch}!{release}-{stage}.{number:05}.{post:05}.{dev:08}"


def distance(one: Versions, other: Versions) -> int:
    """How unlike two sets of versions are; major releases count most, patches least."""
    return sum(distance_between(one.get(name), other.get(name)) for name in SHOWN)


def distance_between(one: Version | None, other: Version | None) -> int:
    """How unlike two versions of a package are."""
    if one is None or other is None:
        return 0 if one is other else MISSING
    if one.major != other.major:
        return 100 + 10 * abs(one.major - other.major)
    if one.minor != other.minor:
        return 10 + min(80, abs(one.minor - other.minor))
    return int(one.release != other.release)


def nearest(here: Versions, locks: Iterable[Lock]) -> Lock | None:
    """The stack with the smallest distance, the newest of several; None if there is none."""
    return min(
        locks,
        key=lambda lock: (distance(here, versions_of(lock)), -lock.as_of.toordinal(), lock.stack),
        default=None,
    )


def remedy_near(
    published: Published, diagnosis: Diagnosis, environment: Mapping[str, str]
) -> Remedy | None:
    """A remedy seen on the published stack nearest to ``environment``, the versions by package.

    Returns:
        None if there is none, or if the diagnosis has advice of its own: one cause has several
        mechanisms, and a remedy against another one would mislead.
    """
    lock = nearest(parse_versions(environment.get), published.locks)
    if lock is None or diagnosis.advice:
        return None
    there = on_stack(published.records, lock.stack)
    return remedy_for(diagnosis.cause, published.scenarios, there, same_stack=False)


def like(
    outcome: str,
    records: Iterable[Record],
    stacks: Mapping[str, Versions],
    here: Versions,
    needs: Iterable[str] = (),
) -> Likeness:
    """How a cell that fails in the environment compares with the same cell on the published stacks.

    Args:
        outcome: how it fails in the environment.
        records: the records of this cell on the published stacks.
        stacks: the versions of each published stack.
        here: the versions of the environment.
        needs: the requirements of the variant.
    """
    judged = {record.cell.stack: record for record in records if record.passed is not None}
    failing = tuple(
        s for s in stacks if s in judged and judged[s].outcome == outcome and not judged[s].passed
    )
    others = [stack for stack in stacks if stack in judged and stack not in failing]
    if not failing:
        return Likeness(words=like_none(outcome, [judged[stack] for stack in others]))
    bounds = bounds_here(failing, others, stacks, here, needs) if others else ()
    words = f"as on {few(failing, MOST_NAMES)}"
    if not others and len(failing) > 1:
        words = f"as on all {len(failing)} published stacks"
    elif bounds:
        first, *more = map(str, bounds)
        words = f"as on every published stack with {first}"
        if more:
            words += f"; these stacks also have {listed(more)}, so it may be any of these packages"
    elif 0 < len(others) <= MOST_EXCEPTIONS < MOST_NAMES < len(failing):
        words = f"as on every published stack except {listed(others)}"
    return Likeness(words=words, stacks=failing, bounds=bounds)


def like_none(outcome: str, others: list[Record]) -> str:
    """What to say about a failure that no published stack has."""
    if Outcome(outcome).phase is Phase.IMPORT:
        return "because it cannot be imported here"
    otherwise = sorted({record.outcome for record in others if record.passed is False})
    if otherwise:
        return f"in another way than on published stacks ({', '.join(otherwise)})"
    if others:
        return "here and on no published stack"
    return "here, and no published stack was judged on it"


def bounds_here(
    failing: Iterable[str],
    others: Iterable[str],
    stacks: Mapping[str, Versions],
    here: Versions,
    needs: Iterable[str],
) -> tuple[Bound, ...]:
    """The bounds that may explain a failure: the environment's release is not on the passing side.

    Over time all packages move to newer releases, so several of them may separate the stacks. If
    the variant needs some of these packages, only those are given.
    """
    separating = separate(
        [stacks[name] for name in failing],
        [stacks[name] for name in others],
        [name for name in SHOWN if name in here],
    )
    found = [
        replace(bound, here=str(here[bound.package]))
        for bound in separating
        if bound.explains(here[bound.package])
    ]
    return of_needed(found, needs)


def of_needed(found: Sequence[OfPackage], needs: Iterable[str]) -> tuple[OfPackage, ...]:
    """What was found of packages that a variant needs, if there is any; the first ones."""
    asked = names_of(needs)
    return tuple([each for each in found if each.package in asked] or found)[:MOST_BOUNDS]


def names_of(needs: Iterable[str]) -> set[str]:
    """The packages that requirements name."""
    return {canonicalize_name(Requirement(text).name) for text in needs}


def separate(
    failing: Sequence[Versions], passing: Sequence[Versions], names: Iterable[str]
) -> tuple[Bound, ...]:
    """The packages of ``names`` whose releases separate the failing stacks from the passing ones.

    A package that one of the stacks does not have separates nothing.

    Args:
        failing, passing: the versions of each stack; at least one stack each.
        names: the packages to look at, in the order of the result.
    """
    found = []
    for name in names:
        if any(name not in each for each in (*failing, *passing)):
            continue
        ends = [(each[name], False) for each in failing] + [(each[name], True) for each in passing]
        one, *others = spells(ends)
        if len(others) != 1 or None in {one.passes, others[0].passes}:
            continue
        older = one.passes is False
        fails, passes = map(
            str, (one.last, others[0].first) if older else (others[0].first, one.last)
        )
        found.append(Bound(package=name, fails=fails, passes=passes, older=older))
    return tuple(found)


class Spell(NamedTuple):
    """Neighbouring releases of a package with which a cell ends alike."""

    passes: bool | None
    """None if it passes on some stacks with such a release, and fails on others."""
    first: Version
    last: Version


def spells(ends: Iterable[tuple[Version, bool]]) -> list[Spell]:
    """How a cell ends along the releases of a package, the oldest first.

    Args:
        ends: for each stack its release, and whether the cell passes.
    """
    known: dict[Version, set[bool]] = defaultdict(set)
    for release, each in ends:
        known[release].add(each)
    found: list[Spell] = []
    for release in sorted(known):
        passes = True in known[release] if len(known[release]) == 1 else None
        if found and found[-1].passes == passes:
            found[-1] = found[-1]._replace(last=release)
        else:
            found.append(Spell(passes, release, release))
    return found


class PackageMove(Frozen, frozen=True):
    """A package, or Python, that differs between two locks."""

    name: str
    before: str | None
    """Its version in the first lock; None if that does not have it."""
    after: str | None
    before_released: dt.date | None = None
    after_released: dt.date | None = None
    direct: bool = False
    """A stack asks for it by name; else it came with another package."""
    same_version: bool = False
    """The version is the same, and the contents are others."""

    def __str__(self) -> str:
        others = " (other contents)" if self.same_version else ""
        return f"{self.name} {self.before or '(none)'} → {self.after or '(none)'}{others}"


Contents = Mapping[str, frozenset[str]]
"""What tells packages of one version from each other, by name: each a kind, a colon and a value."""
KINDS = ("files", "sha256", "commit", "from")
"""The kinds, the surest first."""
BUILD_LABEL = re.compile(r"\+(?:cpu|cu\d+|rocm[\d.]+|xpu)$")
"""The label of a build of torch, which the machine chooses."""


def moves(
    before: Mapping[str, str],
    after: Mapping[str, str],
    contents: tuple[Contents, Contents] = ({}, {}),
) -> tuple[PackageMove, ...]:
    """The packages that differ in version or contents: those of FIRST, then the rest by name."""
    found = []
    for name in sorted({*before, *after}, key=lambda name: (rank(name), name)):
        one, other = before.get(name), after.get(name)
        same = is_same_version(one, other)
        known = [side.get(name, frozenset()) for side in contents]
        # A build of torch that the machine chooses is never the file in the lock.
        if not same or (one == other and have_other_contents(*known)):
            found.append(PackageMove(name=name, before=one, after=other, same_version=same))
    return tuple(found)


def is_same_version(one: str | None, other: str | None) -> bool:
    """Whether two versions are the same; a lock without the label of a build allows every build."""
    if one is None or other is None or one == other:
        return one == other
    bare = [BUILD_LABEL.sub("", each) for each in (one, other)]
    return bare[0] == bare[1] and bool({one, other} & set(bare))


def have_other_contents(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two packages of one version are known to differ, by the surest kind of both."""
    for kind in KINDS:
        values = [{each for each in side if each.startswith(f"{kind}:")} for side in (one, other)]
        if all(values):
            return values[0].isdisjoint(values[1])
    return False


def rank(name: str) -> int:
    """Where a package is named among others."""
    return FIRST.index(name) if name in FIRST else len(FIRST)


def packages_moved(
    baseline: Lock, candidate: Lock, contents: tuple[Contents, Contents] = ({}, {})
) -> tuple[PackageMove, ...]:
    """What differs between two locks; what a stack asks for by name comes first.

    ``contents`` are those of both sides' packages, as far as they are known.
    """
    direct = {"python"} | asked_for(baseline) | asked_for(candidate)
    before, after = ({p.name: p for p in lock.packages} for lock in (baseline, candidate))
    one, other = (
        {"python": lock.python, **{p.name: p.version for p in lock.packages}}
        for lock in (baseline, candidate)
    )
    found = [
        replace(
            each,
            before_released=before[each.name].released if each.name in before else None,
            after_released=after[each.name].released if each.name in after else None,
            direct=each.name in direct,
        )
        for each in moves(one, other, contents)
    ]
    return tuple(sorted(found, key=lambda each: not each.direct))


def asked_for(lock: Lock) -> set[str]:
    """The packages that a stack's requirements name; a path or a URL names none."""
    names = set()
    for text in lock.requirements:
        try:
            names.add(str(canonicalize_name(Requirement(text).name)))
        except InvalidRequirement:
            continue
    return names
