"""Few stacks in which every pair of releases meets at least once: a covering array.

covertable chooses the stacks, and the resolver is asked about each one. If it proves that a stack
has no solution, pins are taken away while the rest still has none. What remains is the smallest
conflict, with the resolver's proof. No stack that holds it is chosen or asked about again.

Rows and proofs that are known are kept. So a new release adds stacks and changes none.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import TYPE_CHECKING

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from gradmatrix.core.model import Stack
from gradmatrix.core.observation import Frozen
from gradmatrix.core.text import versioned
from gradmatrix.stacks import uv
from gradmatrix.stacks.generate import TWINS, Pairwise, names_of, pinned, safe_name
from gradmatrix.stacks.index import admitted, both, minor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gradmatrix.stacks.index import Release

Pins = dict[str, str]
"""A version for each of some packages."""
Versions = dict[str, tuple[str, ...]]
"""The versions that each package may have, oldest first."""


class Proof(Frozen, frozen=True):
    """Releases that cannot be installed together, as the resolver proves it.

    The resolver was asked for these pins alone, and whatever else the table asks for without one of
    its versions.
    """

    versions: Pins
    requirements: tuple[str, ...]
    """What the resolver was asked for."""
    build: tuple[str, ...]
    """The packages that it might have built."""
    pythons: tuple[str, ...]
    as_of: dt.date
    """The day of the package index."""
    resolver: str
    words: str
    """What the resolver says."""

    def refutes(self, pins: Mapping[str, str]) -> bool:
        """Whether ``pins`` hold this conflict."""
        return self.versions.items() <= pins.items()


class Array(Frozen, frozen=True):
    """What is known about the combinations of a table's releases, beside its stacks."""

    strength: int
    versions: Versions
    proofs: tuple[Proof, ...] = ()
    alone: tuple[Pins, ...] = ()
    """Combinations that can be installed alone, but not with any versions of the other packages."""


@dataclass(frozen=True)
class Chosen:
    """The stacks of a table."""

    stacks: tuple[Stack, ...]
    array: Array


class Coverage(Frozen, frozen=True):
    """How many combinations of ``strength`` releases there are, and what became of them."""

    strength: int
    stacks: int
    product: int
    """The number of stacks with every version of each package."""
    possible: int
    """Combinations that can be installed, with other packages of the table or without."""
    covered: int
    """Combinations that at least one stack has."""
    alone: int
    """Combinations that can be installed, but not with any versions of the other packages."""
    impossible: int
    """Combinations that cannot be installed, as the resolver proves."""

    @property
    def noun(self) -> str:
        """What so many releases are called."""
        return {2: "pairs", 3: "triples"}[self.strength]

    def __str__(self) -> str:
        stacks = f"{self.stacks:,} of {self.product:,} possible stacks"
        some = "all" if self.covered == self.possible else f"{self.covered:,} of the"
        found = f"{some} {self.possible:,} {self.noun} of releases that can be installed together"
        alone = f" ({self.alone} only without the other packages)" if self.alone else ""
        return f"{stacks} have {found}{alone}; {self.impossible:,} cannot"


def coverage(array: Array, stacks: Iterable[Stack]) -> Coverage:
    """Count the combinations that ``stacks`` have."""
    rows = [pins_of(stack, array.versions) for stack in stacks]
    every = list(_combinations(array.versions, array.strength))
    met = _met(rows, array.strength)
    impossible = [pins for pins in every if any(proof.refutes(pins) for proof in array.proofs)]
    return Coverage(
        strength=array.strength,
        stacks=len(rows),
        product=prod(map(len, array.versions.values())),
        possible=len(every) - len(impossible),
        covered=sum(_frozen(pins) in met for pins in every),
        alone=len(array.alone),
        impossible=len(impossible),
    )


def extended(
    array: Array, rows: Iterable[Pins], refuted: Callable[[Pins], Proof | None]
) -> tuple[list[Pins], Array]:
    """Add rows to ``rows`` until they have every combination that can be installed.

    Args:
        array: the releases, with the proofs that are known
        rows: the rows that stay as they are
        refuted: asks the resolver; None if it has a solution

    Returns:
        the rows, the given ones first, and the array with all proofs
    """
    rows, proofs, alone = list(rows), list(array.proofs), list(array.alone)

    def possible(pins: Pins) -> bool:
        """Ask about ``pins``, and keep the proof if they are impossible."""
        found = refuted(pins)
        if found is not None:
            proofs.append(_smallest(found, refuted))
        return found is None

    complete = False
    while not complete:
        complete = True
        for row in _missing(array, rows, proofs):
            if not any(proof.refutes(row) for proof in proofs) and possible(row):
                rows.append(row)
            else:
                complete = False
    met = _met(rows, array.strength)
    for pins in _combinations(array.versions, array.strength):
        known = _frozen(pins) in met or any(proof.refutes(pins) for proof in proofs)
        if not known and pins not in alone and possible(pins):
            alone.append(pins)
    alone = [pins for pins in alone if _frozen(pins) not in met]
    return rows, msgspec.structs.replace(array, proofs=tuple(proofs), alone=tuple(alone))


def _missing(array: Array, rows: Sequence[Pins], proofs: Iterable[Proof]) -> list[Pins]:
    """The rows that ``rows`` lack, none of which holds a conflict that is proven."""
    import covertable  # noqa: PLC0415  (only ``refresh`` needs the extra `matrix`)

    made: list[Pins] = covertable.make(
        {name: list(versions) for name, versions in array.versions.items()},
        strength=array.strength,
        presets=rows,
        constraints=[
            {
                "operator": "or",
                "conditions": [
                    {"operator": "ne", "left": name, "value": version}
                    for name, version in proof.versions.items()
                ],
            }
            for proof in proofs
        ],
    )
    return [{name: row[name] for name in array.versions} for row in made if row not in rows]


def _smallest(proof: Proof, refuted: Callable[[Pins], Proof | None]) -> Proof:
    """The proof of a conflict within that of ``proof``, of which no pin can be left out."""
    for name in proof.versions:
        fewer = {each: version for each, version in proof.versions.items() if each != name}
        found = refuted(fewer) if fewer else None
        proof = found or proof
    return proof


def _combinations(versions: Versions, strength: int) -> Iterator[Pins]:
    for names in combinations(versions, strength):
        for chosen in product(*(versions[name] for name in names)):
            yield dict(zip(names, chosen, strict=True))


def _met(rows: Iterable[Mapping[str, str]], strength: int) -> set[frozenset[tuple[str, str]]]:
    return {frozenset(each) for row in rows for each in combinations(row.items(), strength)}


def _frozen(pins: Pins) -> frozenset[tuple[str, str]]:
    return frozenset(pins.items())


def choose(
    rule: Pairwise,
    releases: Mapping[str, Sequence[Release]],
    known: Sequence[Chosen],
    day: dt.date,
    ask: Callable[[Stack], str],
) -> Chosen:
    """The stacks of ``rule``: the ``known`` ones that still are its stacks, and those they lack.

    Args:
        rule: the table
        releases: those of its packages
        known: what was chosen earlier, for this rule or for others
        day: a complete day; what is new is resolved as of it
        ask: the resolver's proof that a stack has no solution; empty if it has one
    """
    versions = versions_of(rule, releases, day)
    stacks = {
        _frozen(pins): stack
        for earlier in known
        for pins, stack in _kept_stacks(rule, versions, earlier.stacks)
    }
    rows = [dict(pins) for pins in stacks]
    proofs = {
        _frozen(proof.versions): proof
        for earlier in known
        for proof in earlier.array.proofs
        if _holds(rule, versions, proof)
    }
    alone = [
        pins
        for earlier in known
        if (earlier.array.strength, earlier.array.versions) == (rule.strength, versions)
        and all(proof in proofs.values() for proof in earlier.array.proofs)
        for pins in earlier.array.alone
    ]

    def refuted(pins: Pins) -> Proof | None:
        words = {}
        for python in rule.pythons:
            stack = stack_of(rule, pins, python, day)
            words[python] = ask(stack)
            if not words[python]:
                stacks[_frozen(pins)] = stack
                return None
        return Proof(
            versions=pins,
            requirements=requirements_of(rule, pins),
            build=rule.build,
            pythons=rule.pythons,
            as_of=day,
            resolver=uv.version(),
            words=" ".join(dict.fromkeys(words.values())),
        )

    array = Array(
        strength=rule.strength,
        versions=versions,
        proofs=tuple(proofs.values()),
        alone=tuple(alone),
    )
    rows, array = extended(array, rows, refuted)
    return Chosen(tuple(stacks[_frozen(row)] for row in rows), array)


def _kept_stacks(
    rule: Pairwise, versions: Versions, stacks: Iterable[Stack]
) -> Iterator[tuple[Pins, Stack]]:
    """Those of ``stacks`` that ``rule`` still asks for, with its prefix."""
    for old in stacks:
        pins = pins_of(old, versions)
        if len(pins) < len(versions) or not _fit(pins, versions) or isinstance(old.as_of, str):
            continue
        stack = stack_of(rule, pins, old.python, old.as_of)
        same = (stack.requirements, stack.build) == (old.requirements, old.build)
        if same and old.python in rule.pythons:
            yield pins, stack


def _holds(rule: Pairwise, versions: Versions, proof: Proof) -> bool:
    """Whether ``proof`` answers what ``rule`` would ask."""
    return (
        _fit(proof.versions, versions)
        and proof.requirements == requirements_of(rule, proof.versions)
        and proof.build == rule.build
        and {*rule.pythons} <= {*proof.pythons}
    )


def _fit(pins: Pins, versions: Versions) -> bool:
    return all(version in versions.get(name, ()) for name, version in pins.items())


def versions_of(
    rule: Pairwise, releases: Mapping[str, Sequence[Release]], day: dt.date
) -> Versions:
    """The versions of each package: the named ones, or the last patch of each minor release."""
    found = {}
    for name, asked in rule.by_name.items():
        there = [
            release
            for release in releases_of(rule, releases, name)
            if release.uploaded is None or release.uploaded <= day
        ]
        if isinstance(asked, str):
            fitting = [r for r in admitted(there) if SpecifierSet(asked).contains(r.version)]
            taken = [r.version for r in {minor(r): r for r in fitting}.values()]
        else:
            out = {Version(release.version) for release in there}
            taken = [text for text in asked if Version(text) in out]
        found[name] = tuple(sorted(taken, key=Version))
    return found


def releases_of(
    rule: Pairwise, releases: Mapping[str, Sequence[Release]], name: str
) -> Sequence[Release]:
    """The releases of a package; of one under two names, those that both have."""
    twin = TWINS.get(name)
    asked = twin is not None and twin in names_of(rule.requirements)
    return both(releases[name], releases[twin]) if twin and asked else releases[name]


def requirements_of(rule: Pairwise, pins: Pins) -> tuple[str, ...]:
    """The rule's requirements with ``pins``, without the packages whose version is open."""
    varied = {*rule.by_name} | {TWINS[name] for name in rule.by_name if name in TWINS}
    held = {*pins} | {TWINS[name] for name in pins if name in TWINS}
    names = names_of(rule.requirements)
    asked = [
        text
        for name, text in zip(names, rule.requirements, strict=True)
        if name in held or name not in varied
    ]
    return pinned(asked, pins)


def stack_of(rule: Pairwise, pins: Pins, python: str, as_of: dt.date) -> Stack:
    """The stack of ``pins``. Its name follows from them alone."""
    content = " ".join(f"{name}=={version}" for name, version in sorted(pins.items()))
    return Stack(
        name=safe_name(f"{rule.prefix}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"),
        python=python,
        requirements=requirements_of(rule, pins),
        as_of=as_of,
        core=rule.core,
        summary=versioned(pins),
        build=tuple(map(canonicalize_name, rule.build)),
        scenarios=rule.scenarios,
    )


def pins_of(stack: Stack, names: Iterable[str]) -> Pins:
    """The versions to which ``stack`` pins the packages ``names``."""
    pins = {
        str(canonicalize_name(each.name)): specifier.version
        for each in map(Requirement, stack.requirements)
        for specifier in each.specifier
        if specifier.operator == "=="
    }
    return {name: pins[name] for name in names if name in pins}
