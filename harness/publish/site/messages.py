"""Every distinct error and warning with its cells, its causes and what was seen to help: what a search lands on."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from harness.model import Role
from harness.publish.site import links
from harness.publish.site.cells import shown
from harness.publish.site.claims import MARKS
from harness.publish.site.markup import page
from harness.publish.site.sentences import in_words
from harness.publish.site.tried import tried
from harness.publish.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.claims import Judged
    from harness.publish.rows import Row
    from harness.publish.site.tried import Tried
    from harness.publish.site.view import View

VARIES = re.compile(r"0x[0-9a-f]+|(?:(?<!\S)-)?\d+(?:[.,:]\d+)*(?:e[+-]?\d+)?", re.IGNORECASE)
"""What differs between two occurrences of the same message: numbers, versions, addresses."""
MOST_STACKS = 6
"""Stacks of a variant that are named, the newest ones."""


class Variant(NamedTuple):
    """A variant that gave a message, with its newest cells."""

    scenario: str
    variant: str
    role: Role
    device: str
    rows: Sequence[Row]
    untold: int


class Cause(NamedTuple):
    """One reason for a message."""

    cause: str
    """Or the outcome of cells that fail without one; empty where they pass."""
    newest: Row
    """The newest cell with it, one that fails where there is one: its diagnosis is shown for all of them."""
    variants: Sequence[Variant]
    cells: int
    tried: Sequence[Tried]
    """What people do about it, on the stacks on which cells with this message and cause fail."""

    @property
    def why(self) -> Sequence[str]:
        """The diagnosis of the newest cell; without its advice where all that was tried stands below."""
        told = self.newest.diagnosis
        if told is None:
            return (in_words(self.newest.outcome),)
        return told.text[:-1] if self.tried and told.remedy is not None else told.text


class Message(NamedTuple):
    """What was said, as the newest cell said it."""

    text: str
    outcomes: Sequence[str]
    """The outcomes of its cells, the most frequent one first."""
    causes: Sequence[Cause]
    cells: int
    failing: int
    telling: int
    """Cells of a misuse that pass: the stack says so, with this message or another one."""

    @property
    def training(self) -> int:
        """Cells that train nevertheless."""
        return self.cells - self.failing - self.telling


class Found(NamedTuple):
    """A variant as the search finds it."""

    row: Row
    """Its newest judged cell."""
    summary: str
    kind: str
    word: str


def messages_page(view: View, claims: Sequence[Judged]) -> tuple[str, bytes]:
    """errors.html; the search on it finds claims and variants too."""
    errors, warnings = messages(view)
    return page(
        "errors.html",
        links.ERRORS,
        errors=errors,
        warnings=warnings,
        variants=list(searched(view)),
        claims=[(judged, *MARKS[judged.verdict]) for judged in claims],
    )


def searched(view: View) -> Iterator[Found]:
    """Every variant that was judged, with its newest cell."""
    for scenario in view.table.scenarios.values():
        for variant in scenario.variants:
            places = [(scenario.name, variant.name, device) for device in view.devices]
            rows = (view.row(lock.stack, place) for lock in view.newest_first for place in places)
            newest = next((row for row in rows if row is not None and row.passed is not None), None)
            if newest is not None:
                kind, word, _ = shown(newest)
                yield Found(newest, variant.summary, kind, word)


def messages(view: View) -> tuple[list[Message], list[Message]]:
    """What judged cells raised or were found to do, and what they warned of; the most frequent first."""
    said: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    warned: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    for lock in view.newest_first:
        for row in view.cells.get(lock.stack, {}).values():
            if row.passed is None:
                continue
            if row.message:
                said[signature(row.message)].append((row.message, row))
            for text in row.warnings:
                warned[signature(text)].append((text, row))
    return in_order(view, said), in_order(view, warned)


@lru_cache(maxsize=65536)
def signature(text: str) -> str:
    """What all occurrences of a message have in common."""
    return VARIES.sub("#", one_line(text)).lower()


def in_order(view: View, said: dict[str, list[tuple[str, Row]]]) -> list[Message]:
    """The messages, the most frequent first."""
    return sorted((message(view, each) for each in said.values()), key=lambda each: (-each.cells, each.text))


def message(view: View, occurrences: Sequence[tuple[str, Row]]) -> Message:
    """A message with its causes; ``occurrences`` are of the newest stack first."""
    rows = [row for _, row in occurrences]
    by_cause: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_cause[reason(row)].append(row)
    causes = [cause_of(view, name, members) for name, members in by_cause.items()]
    return Message(
        text=one_line(occurrences[0][0]),
        outcomes=[outcome for outcome, _ in Counter(row.outcome for row in rows).most_common()],
        causes=sorted(causes, key=lambda each: -each.cells),
        cells=len(rows),
        failing=sum(row.passed is False for row in rows),
        telling=sum(row.passed is True and row.role is Role.MISUSE for row in rows),
    )


def reason(row: Row) -> str:
    """The cause, or the outcome of a failure without one; empty for what passes without one."""
    if row.diagnosis is not None:
        return row.diagnosis.cause
    return row.outcome if row.passed is False else ""


def cause_of(view: View, name: str, rows: Sequence[Row]) -> Cause:
    """One cause with its cells, and what was tried against it."""
    failing = [row for row in rows if row.passed is False]
    return Cause(name, (failing or rows)[0], variants(rows), len(rows), tried(view, name, failing) if name else ())


def variants(rows: Iterable[Row]) -> list[Variant]:
    """The cells by variant."""
    found: dict[tuple[str, str, Role, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row.scenario, row.variant, row.role, row.device].append(row)
    return [
        Variant(*place, members[:MOST_STACKS], len(members[MOST_STACKS:])) for place, members in sorted(found.items())
    ]
