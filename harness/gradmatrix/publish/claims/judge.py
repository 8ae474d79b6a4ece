"""Pure: claims judged by the cells of the matrix. A verdict is derived from records alone, every time it is shown."""

from __future__ import annotations

import re
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gradmatrix.core.model import Role
from gradmatrix.core.outcomes import TRAINS
from gradmatrix.publish.claims.claims import Evidence, Judged, Tested, Verdict
from gradmatrix.publish.claims.words import seen_in_words, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gradmatrix.core.model import Lock
    from gradmatrix.publish.claims.claims import Claim, Expectation, Sign
    from gradmatrix.publish.rows import Row, Table

NEVER_TRIED = ("resolve:", "install:", "import:", "setup:", "process:")
"""Outcomes of cells in which nothing was trained: they bear on a claim only where it names them."""
SAME_MEMORY = 0.01
"""Peaks that differ by less than this part of the larger one are the same."""
SAME_SPEED = 0.05
"""Median rates that differ by less than this are close: two runs of the same thing differ by as much."""


def judge(claim: Claim, table: Table) -> Judged:
    """One claim; for many of them ``judge_all`` is faster."""
    return judge_all((claim,), table)[0]


def judge_all(claims: Iterable[Claim], table: Table) -> tuple[Judged, ...]:
    """Each claim with its verdict and all that bears on it."""
    matrix = Cells(table)
    return tuple(_judged(claim, matrix) for claim in claims)


def verdict_of(tested: Iterable[Tested]) -> Verdict:
    """Confirmed or refuted where all cells say so; what leaves an expectation untested is not confirmed."""
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
    """A table's rows, found by scenario and variant; its stacks, found by version range."""

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
        """The stacks that meet every requirement."""
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
        """The cell of that scenario and variant on the stack and device of ``row``."""
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
        words = told(expectation, evidence, matrix.table, matrix.versions, too_close=close)
        tested.append(Tested(words=words, evidence=evidence))
    return Judged(claim=claim, verdict=verdict_of(tested), tested=tuple(tested))


def _tested(expectation: Expectation, matrix: Cells) -> Iterator[Row]:
    """The cells that ``expectation`` is about: judged, in range, under its conditions."""
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
    """Those of ``rows`` that can tell, and what they tell."""
    for row in rows:
        shown = shows(matrix, row, expectation)
        if shown is not None:
            yield Evidence(
                cell=row.cell,
                outcome=row.outcome,
                bears="for" if shown else "against",
                why=seen_in_words(expectation, row, _compared(matrix, row, expectation)),
            )


def _too_close(expectation: Expectation, row: Row, matrix: Cells) -> bool:
    """Whether both rates were measured, and noise may be all that tells them apart."""
    other = _compared(matrix, row, expectation)
    if other is None or row.steps_per_s is None or other.steps_per_s is None:
        return False
    return speed_beside(row, other) == "unknown"


def _is_tested(expectation: Expectation, row: Row, matrix: Cells) -> bool:
    """Whether the device is meant, and every condition holds of the cells beside it."""
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
    """Whether everything that ``sign`` names is seen of ``row``; None where the row cannot tell."""
    if row is None or row.passed is None:
        return None
    if row.outcome.startswith(NEVER_TRIED) and not any(
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
    """Whether memory and speed stand to those of ``other`` as ``sign`` has it; None where that cannot be told."""
    if other is None:
        return None
    memory = sign.memory and memory_beside(row, other)
    speed = sign.speed and speed_beside(row, other)
    if "unknown" in {memory, speed}:
        return None
    return memory == sign.memory and speed == sign.speed


def memory_beside(row: Row, other: Row) -> str:
    """More, less or the same memory at its peak; unknown where it was not measured."""
    ours, theirs = row.peak_memory_bytes, other.peak_memory_bytes
    if not ours or not theirs:
        return "unknown"
    if abs(ours - theirs) < SAME_MEMORY * max(ours, theirs):
        return "same"
    return "more" if ours > theirs else "less"


def speed_beside(row: Row, other: Row) -> str:
    """Faster or slower where medians and the ranges between the quartiles are apart; unknown where one of them is."""
    ours, theirs = row.steps_per_s, other.steps_per_s
    if ours is None or theirs is None:
        return "unknown"
    close = abs(ours.median - theirs.median) < SAME_SPEED * max(ours.median, theirs.median)
    apart = ours.high < theirs.low or ours.low > theirs.high
    if close or not apart:
        return "same" if close and not apart else "unknown"
    return "slower" if ours.median < theirs.median else "faster"


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
    """Whether a message has the pattern: the same messages come many times."""
    return re.search(pattern, text) is not None


def _versions(lock: Lock) -> dict[str, Version]:
    texts = (
        ("python", lock.python),
        *((package.name, package.version) for package in lock.packages),
    )
    return {name: version for name, text in texts if (version := _version(text)) is not None}


@lru_cache(maxsize=100_000)
def _version(text: str) -> Version | None:
    """A version; stacks have most of theirs in common."""
    try:
        return Version(text)
    except InvalidVersion:  # made by hand
        return None
