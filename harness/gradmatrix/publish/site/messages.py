"""What people do against a cause, and on how many of the stacks that show it each remedy was seen to train.

claims.html: what people published, and what the records say of it, with the cells on either side.

Every distinct error and warning with its cells, its causes and what was seen to help: what a search lands on.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.model import Role
from gradmatrix.core.text import one_line
from gradmatrix.publish.claims.claims import Verdict
from gradmatrix.publish.site import links
from gradmatrix.publish.site.markup import in_words, page
from gradmatrix.publish.site.tables import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gradmatrix.core.model import Scenario
    from gradmatrix.publish.claims.claims import Evidence, Judged
    from gradmatrix.publish.rows import Row
    from gradmatrix.publish.site.tables import View


MOST_ENDED = 6
"""Stacks that are named of an outcome, the newest ones."""
REMEDY_MARKS = {True: ("p", "✓"), None: ("h", "◐"), False: ("f", "✗")}
"""Class and symbol of a remedy that works everywhere, on some, on none."""


class Ended(NamedTuple):
    """The stacks on which a remedy ended alike."""

    outcome: str
    rows: Sequence[Row]
    """The newest ones."""
    untold: int


class Tried(NamedTuple):
    """A remedy on the stacks on which its scenario fails for the cause."""

    scenario: str
    variant: str
    device: str
    summary: str
    trains: Ended
    fails: Sequence[Ended]
    judged: int

    @property
    def trained(self) -> int:
        """On how many stacks it trains."""
        return len(self.trains.rows) + self.trains.untold

    @property
    def mark(self) -> tuple[str, str]:
        """Class and symbol: works everywhere, on some, on none."""
        return REMEDY_MARKS[None if 0 < self.trained < self.judged else bool(self.trained)]


def tried(view: View, cause: str, failing: Iterable[Row]) -> list[Tried]:
    """The remedies against ``cause`` in the scenarios of the ``failing`` cells, on the stacks of these cells alone.

    Where none of those scenarios has a remedy, those of the other scenarios are looked at. ``failing`` are of the
    newest stack first.
    """
    where: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    anywhere: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    scenarios = view.table.scenarios.values()
    for row in failing:
        where[row.scenario, row.device][row.stack] = None
        for scenario in scenarios:
            anywhere[scenario.name, row.device][row.stack] = None
    return looked_up(view, cause, where) or looked_up(view, cause, anywhere)


def looked_up(view: View, cause: str, where: dict[tuple[str, str], dict[str, None]]) -> list[Tried]:
    """The remedies of each scenario and device on some stacks."""
    return [
        found
        for (name, device), stacks in sorted(where.items())
        if name in view.table.scenarios
        for found in of_scenario(view, cause, view.table.scenarios[name], device, stacks)
    ]


def of_scenario(
    view: View, cause: str, scenario: Scenario, device: str, stacks: Iterable[str]
) -> Iterable[Tried]:
    """The remedies of a scenario that were judged on one of the stacks."""
    for variant in scenario.variants:
        if cause not in variant.cures:
            continue
        place = (scenario.name, variant.name, device)
        rows = [
            row
            for stack in stacks
            if (row := view.row(stack, place)) is not None and row.passed is not None
        ]
        if rows:
            by_outcome: dict[str, list[Row]] = defaultdict(list)
            for row in rows:
                by_outcome[row.outcome].append(row)
            trains = ended("trains", by_outcome.pop("trains", []))
            fails = [ended(outcome, each) for outcome, each in by_outcome.items()]
            yield Tried(*place, variant.summary, trains, fails, len(rows))


def ended(outcome: str, rows: Sequence[Row]) -> Ended:
    """Cells that ended alike, the newest of them to be named."""
    return Ended(outcome, rows[:MOST_ENDED], len(rows[MOST_ENDED:]))


KINDS = {Verdict.CONFIRMED: "p", Verdict.REFUTED: "f", Verdict.PARTLY: "h", Verdict.UNTESTED: "n"}
"""The class of each verdict in the style sheet."""
MOST_CELLS = 24
"""Cells of an expectation that the page names on either side, those of the newest stacks."""


class Marked(NamedTuple):
    """A claim with the class of its verdict."""

    judged: Judged
    kind: str


class Side(NamedTuple):
    """The cells that speak for a claim, or against it."""

    title: str
    kind: str
    cells: Sequence[Evidence]
    untold: int


class Group(NamedTuple):
    """The claims of a scenario."""

    scenario: str
    known: bool
    """The scenario has a page."""
    title: str
    claims: Sequence[Marked]
    variants: Sequence[tuple[str, Sequence[Marked]]]
    """Each variant, with the claims that rest on its cells."""


def claims_page(view: View, claims: Sequence[Judged]) -> tuple[str, bytes]:
    """The page of all claims: by verdict and by variant as links, in full by scenario."""
    age = {stack: number for number, stack in enumerate(reversed(view.table.stacks))}
    marked = [Marked(judged, KINDS[judged.verdict]) for judged in claims]
    by_verdict: dict[Verdict, list[Marked]] = defaultdict(list)
    for each in marked:
        by_verdict[each.judged.verdict].append(each)
    return page(
        "claims.html",
        links.CLAIMS,
        verdicts=[
            (verdict, KINDS[verdict], by_verdict[verdict])
            for verdict in Verdict
            if by_verdict[verdict]
        ],
        groups=groups(view, marked),
        sides_of=lambda evidence: sides(evidence, age),
        any=bool(claims),
    )


def groups(view: View, claims: Sequence[Marked]) -> list[Group]:
    """Every scenario with its claims, also one without any: cells link to it."""
    known = view.table.scenarios
    resting: dict[tuple[str, str], dict[str, Marked]] = defaultdict(dict)
    for each in claims:
        for evidence in each.judged.evidence:
            resting[evidence.cell.scenario, evidence.cell.variant][each.judged.claim.id] = each
    return [
        Group(
            name,
            name in known,
            known[name].title if name in known else "",
            [each for each in claims if each.judged.claim.scenario == name],
            [(v.name, list(resting[name, v.name].values())) for v in known[name].variants]
            if name in known
            else [],
        )
        for name in dict.fromkeys([*known, *(each.judged.claim.scenario for each in claims)])
    ]


def sides(evidence: Sequence[Evidence], age: dict[str, int]) -> list[Side]:
    """What speaks for and against, of the newest stacks first."""
    ordered = sorted(evidence, key=lambda each: (age.get(each.cell.stack, len(age)), each.cell))
    found = []
    for bears, title, kind in (("for", "support it", "p"), ("against", "contradict it", "f")):
        cells = [each for each in ordered if each.bears == bears]
        if cells:
            found.append(Side(title, kind, cells[:MOST_CELLS], len(cells[MOST_CELLS:])))
    return found


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
        claims=[Marked(judged, KINDS[judged.verdict]) for judged in claims],
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
    return sorted(
        (message(view, each) for each in said.values()), key=lambda each: (-each.cells, each.text)
    )


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
    return Cause(
        name,
        (failing or rows)[0],
        variants(rows),
        len(rows),
        tried(view, name, failing) if name else (),
    )


def variants(rows: Iterable[Row]) -> list[Variant]:
    """The cells by variant."""
    found: dict[tuple[str, str, Role, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row.scenario, row.variant, row.role, row.device].append(row)
    return [
        Variant(*place, members[:MOST_STACKS], len(members[MOST_STACKS:]))
        for place, members in sorted(found.items())
    ]
