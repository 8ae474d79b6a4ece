"""Judge claims by the cells of the matrix. The verdict is computed again whenever it is shown."""

from __future__ import annotations

import re
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gradmatrix.core.model import SHOWN, Cell, Role
from gradmatrix.core.outcomes import TRAINS, Phase, phase_of
from gradmatrix.judge.versions import separate
from gradmatrix.publish.claims.claims import Boundary, Evidence, Judged, Span, Tested, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gradmatrix.core.model import Lock
    from gradmatrix.publish.claims.claims import Claim, Expectation, Sign
    from gradmatrix.publish.rows import Row, Table

NEVER_TRIED = frozenset({Phase.RESOLVE, Phase.INSTALL, Phase.IMPORT, Phase.SETUP, Phase.PROCESS})
"""Phases in which a cell failed before it trained. They count only for a claim that names them."""
SAME_MEMORY = 0.01
"""Peaks count as the same if they differ by less than this part of the larger one."""
SAME_SPEED = 0.05
"""Median rates are close if they differ by less."""
OTHER_SPEED = 2.0
"""One rate is higher than another only if it is so many times as high. Each cell ran once: of 297
cells on two stacks with equal packages, 95 in 100 differed by less than 1.55 times, one by 2.3
(November 2026)."""
MIB = 2**20


def judge(claim: Claim, table: Table) -> Judged:
    """Judge one claim. For many claims, ``judge_all`` is faster."""
    return judge_all((claim,), table)[0]


def judge_all(claims: Iterable[Claim], table: Table) -> tuple[Judged, ...]:
    """Judge each claim by the cells of ``table``."""
    matrix = Cells(table)
    return tuple(_judged(claim, matrix) for claim in claims)


def verdict_of(tested: Iterable[Tested]) -> Verdict:
    """Return the verdict of all cells. An untested expectation prevents "confirmed"."""
    parts = list(tested)
    sides = {each.bears for part in parts for each in part.evidence}
    if not sides:
        return Verdict.UNTESTED
    if sides == {"against"}:
        return Verdict.REFUTED
    if sides == {"for"} and all(part.evidence for part in parts):
        return Verdict.CONFIRMED
    return Verdict.PARTLY


class Cells:
    """The rows of a table, by scenario and variant, and its stacks, by version range."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in table.rows:
            self.rows[row.scenario, row.variant].append(row)
        self._in_range: dict[str, set[str]] = {}
        self._by_place: dict[tuple[str, str], dict[tuple[str, str], Row]] = {}

    @cached_property
    def versions(self) -> dict[str, Mapping[str, Version]]:
        """The version of every package, by stack."""
        return {lock.stack: _versions(lock) for lock in self.table.locks}

    def stacks(self, where: Iterable[str]) -> set[str]:
        """Return the stacks whose locks meet every requirement."""
        return set(self.versions).intersection(*map(self._meeting, where))

    def _meeting(self, text: str) -> set[str]:
        if text not in self._in_range:
            requirement = Requirement(text)
            releases = {
                stack: each.get(canonicalize_name(requirement.name))
                for stack, each in self.versions.items()
            }
            inside = {
                release
                for release in set(releases.values()) - {None}
                if requirement.specifier.contains(str(release), prereleases=True)
            }
            self._in_range[text] = {
                stack for stack, release in releases.items() if release in inside
            }
        return self._in_range[text]

    def beside(self, row: Row, cell: tuple[str, str]) -> Row | None:
        """Return the row of another scenario and variant on the same stack and device."""
        if cell not in self._by_place:
            self._by_place[cell] = {(each.stack, each.device): each for each in self.rows[cell]}
        return self._by_place[cell].get((row.stack, row.device))


def _judged(claim: Claim, matrix: Cells) -> Judged:
    tested = []
    for expectation in claim.expect:
        rows = list(_tested(expectation, matrix))
        evidence = tuple(_evidence(expectation, rows, matrix))
        close = (
            sum(_too_close(expectation, row, matrix) for row in rows) if expectation.speed else 0
        )
        tested.append(
            Tested(
                expectation=expectation,
                evidence=evidence,
                releases=tuple(_releases(expectation, evidence, matrix)),
                boundaries=tuple(_boundaries(expectation, evidence, matrix)),
                too_close=close,
            )
        )
    return Judged(claim=claim, verdict=verdict_of(tested), tested=tuple(tested))


def _tested(expectation: Expectation, matrix: Cells) -> Iterator[Row]:
    """Yield the judged cells that match the versions and conditions of ``expectation``."""
    stacks = matrix.stacks(expectation.where)
    for cell in expectation.cells:
        for row in matrix.rows[cell]:
            if (
                row.passed is not None
                and row.stack in stacks
                and _is_tested(expectation, row, matrix)
            ):
                yield row


def _evidence(expectation: Expectation, rows: Iterable[Row], matrix: Cells) -> Iterator[Evidence]:
    """Yield the rows that support or contradict ``expectation``."""
    if expectation.release is not None:
        yield from _changing(expectation, matrix)
        return
    for row in rows:
        shown = shows(matrix, row, expectation)
        if shown is not None:
            yield Evidence(
                cell=row.cell,
                outcome=row.outcome,
                bears="for" if shown else "against",
                why=seen(expectation, row, _compared(matrix, row, expectation)),
            )


def _changing(expectation: Expectation, matrix: Cells) -> Iterator[Evidence]:
    """Yield the changes of its cells that are exact: with the release that is named or another."""
    requirement = Requirement(expectation.release or "")
    package = canonicalize_name(requirement.name)
    for each in matrix.table.turnings:
        scenario, variant, device = each.cell.split("/")
        wanted = (scenario, variant) in expectation.cells
        if not wanted or expectation.device not in {None, device}:
            continue
        found = [edge for edge in each.edges if edge.package == package]
        if not found:
            continue  # a change that another package made says nothing about this one
        right = any(requirement.specifier.contains(e.newer, prereleases=True) for e in found)
        yield Evidence(
            cell=Cell(stack=each.stacks[1], scenario=scenario, variant=variant, device=device),
            outcome=each.outcomes[1],
            bears="for" if right else "against",
            why=f"changes between {each.answer}",
        )


def _too_close(expectation: Expectation, row: Row, matrix: Cells) -> bool:
    """Whether both rates were measured but noise may explain their difference."""
    other = _compared(matrix, row, expectation)
    if other is None or row.steps_per_s is None or other.steps_per_s is None:
        return False
    return speed_beside(row, other) == "unknown"


def _releases(
    expectation: Expectation, evidence: Iterable[Evidence], matrix: Cells
) -> Iterator[Span]:
    """Yield the oldest and newest tested release of each package in ``where``."""
    stacks = {each.cell.stack for each in evidence}
    for name in _names(expectation.where) if stacks else ():
        releases = {matrix.versions[stack][name] for stack in stacks}
        yield Span(package=name, oldest=str(min(releases)), newest=str(max(releases)))


def _boundaries(
    expectation: Expectation, evidence: Iterable[Evidence], matrix: Cells
) -> Iterator[Boundary]:
    """Yield each package whose version separates the stacks that hold from those that do not.

    Only packages that ``where`` names or that a variant needs are considered. Others changed along
    with them.
    """
    sides: dict[str, set[str]] = defaultdict(set)
    for each in evidence:
        sides[each.cell.stack].add(each.bears)
    good = [matrix.versions[stack] for stack, found in sides.items() if found == {"for"}]
    bad = [matrix.versions[stack] for stack, found in sides.items() if found == {"against"}]
    if not good or not bad or len(good) + len(bad) < len(sides):
        return
    names = dict.fromkeys((*_names(expectation.where), *_needed(expectation, matrix.table)))
    for bound in separate(bad, good, names):
        yield Boundary(package=bound.package, holds=bound.passes, fails=bound.fails)


def _names(requirements: Iterable[str]) -> list[str]:
    """Return the packages that some requirements name."""
    return list(dict.fromkeys(canonicalize_name(Requirement(text).name) for text in requirements))


def _needed(expectation: Expectation, table: Table) -> list[str]:
    """Return the main packages that the variants of an expectation need."""
    needs = [
        text
        for name, variant in expectation.cells
        if name in table.scenarios
        for each in table.scenarios[name].variants
        if each.name == variant
        for text in each.needs
    ]
    names = _names(needs)
    return [name for name in SHOWN if name in names]


def _is_tested(expectation: Expectation, row: Row, matrix: Cells) -> bool:
    """Whether the device matches and every condition holds."""
    if expectation.device is not None and expectation.device != row.device:
        return False
    for given in expectation.given:
        other = row if given.cell is None else matrix.beside(row, given.cell)
        if not shows(matrix, other, given):
            return False
    return True


def _compared(matrix: Cells, row: Row, sign: Sign) -> Row | None:
    return None if sign.than is None else matrix.beside(row, (row.scenario, sign.than))


def shows(matrix: Cells, row: Row | None, sign: Sign) -> bool | None:
    """Whether ``row`` shows all that ``sign`` names; None if the row cannot decide it."""
    if row is None or row.passed is None:
        return None
    if phase_of(row.outcome) in NEVER_TRIED and not any(
        _is(row, text) for text in sign.outcomes if ":" in text
    ):
        return None
    if sign.than is not None:
        compared = compares(row, _compared(matrix, row, sign), sign)
        if not compared:
            return compared
    return (
        (not sign.outcome or any(_is(row, text) for text in sign.outcomes))
        and (sign.gradient is None or row.gradient is sign.gradient)
        and (not sign.raises or (row.raised is not None and _finds(sign.raises, row.message)))
        and (not sign.warns or any(_finds(sign.warns, text) for text in row.warnings))
        and (not sign.quiet or not any(_finds(sign.quiet, text) for text in row.warnings))
        and (not sign.cause or (row.diagnosis is not None and row.diagnosis.cause == sign.cause))
    )


def compares(row: Row, other: Row | None, sign: Sign) -> bool | None:
    """Whether memory and speed compare to ``other`` as ``sign`` says; None if that is unknown."""
    if other is None:
        return None
    memory = sign.memory and memory_beside(row, other)
    speed = sign.speed and speed_beside(row, other)
    if "unknown" in {memory, speed}:
        return None
    return memory == sign.memory and speed == sign.speed


def memory_beside(row: Row, other: Row) -> str:
    """Compare the peaks: "more", "less" or "same"; "unknown" if one was not measured."""
    ours, theirs = row.peak_memory_bytes, other.peak_memory_bytes
    if not ours or not theirs:
        return "unknown"
    if abs(ours - theirs) < SAME_MEMORY * max(ours, theirs):
        return "same"
    return "more" if ours > theirs else "less"


def speed_beside(row: Row, other: Row) -> str:
    """Compare the rates: "faster", "slower", "same" or "unknown".

    They differ if one median is OTHER_SPEED times the other and the ranges between the quartiles do
    not overlap. They are the same if the medians are close and the ranges overlap. Noise may
    explain everything else.
    """
    ours, theirs = row.steps_per_s, other.steps_per_s
    if ours is None or theirs is None:
        return "unknown"
    low, high = sorted((ours.median, theirs.median))
    apart = ours.high < theirs.low or ours.low > theirs.high
    if not apart:
        return "same" if high - low < SAME_SPEED * high else "unknown"
    if high < OTHER_SPEED * low:
        return "unknown"
    return "slower" if ours.median < theirs.median else "faster"


def seen(sign: Sign, row: Row, other: Row | None) -> str:
    """Return what was observed in a cell, as far as ``sign`` asks for it."""
    facts = [row.outcome]
    if sign.gradient is not None:
        facts.append(f"gradient {row.gradient}")
    if sign.raises and row.message:
        facts.append(row.message)
    if sign.warns or sign.quiet:
        facts.append(f"warns “{'”, “'.join(row.warnings)}”" if row.warnings else "no warning")
    if sign.cause:
        facts.append(f"cause {row.diagnosis.cause}" if row.diagnosis else "no diagnosis")
    if sign.memory is not None and other is not None:
        ours, theirs = row.peak_memory_bytes, other.peak_memory_bytes
        if ours and theirs:
            facts.append(f"peak {ours / MIB:.0f} MiB, {other.variant} {theirs / MIB:.0f} MiB")
    if sign.speed is not None and other is not None and row.steps_per_s and other.steps_per_s:
        fast, beside = row.steps_per_s.median, other.steps_per_s.median
        facts.append(f"{fast:.3g} steps/s, {other.variant} {beside:.3g}")
    return ", ".join(facts)


def _is(row: Row, text: str) -> bool:
    """Whether ``text`` names the outcome of a judged row."""
    if text == "fails":
        return row.outcome != TRAINS
    if text in {"says-so", "silent"}:
        told_so = bool(row.passed)
        return row.role is Role.MISUSE and (
            told_so if text == "says-so" else not told_so and row.raised is None
        )
    return fnmatchcase(row.outcome, text)


@lru_cache(maxsize=10_000)
def _finds(pattern: str, text: str) -> bool:
    """Whether a message matches a pattern. Cached, because the same messages come many times."""
    return re.search(pattern, text) is not None


def _versions(lock: Lock) -> dict[str, Version]:
    texts = (
        ("python", lock.python),
        *((package.name, package.version) for package in lock.packages),
    )
    return {name: version for name, text in texts if (version := _version(text)) is not None}


@lru_cache(maxsize=100_000)
def _version(text: str) -> Version | None:
    """Parse a version. Cached, because stacks share most of their versions."""
    try:
        return Version(text)
    except InvalidVersion:  # a version that somebody made up
        return None
