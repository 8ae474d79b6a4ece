"""The error messages, with the remedies that were tested, and the claims.

``errors.html`` lists every distinct error and warning and has a search. Each has a page of its own,
with its causes, cells and remedies: see ``answers.py``. ``claims.html`` lists what people
published, with the cells that support or contradict it.

What a scenario itself prints or checks is nobody's error: it is listed, and not searched.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gradmatrix.core.model import Role
from gradmatrix.core.outcomes import DISAGREES
from gradmatrix.core.text import one_line
from gradmatrix.judge import causes
from gradmatrix.judge.verdict import NAMES_THE_PROBLEM
from gradmatrix.publish.claims.claims import Verdict
from gradmatrix.publish.search import RULES, Search
from gradmatrix.publish.site import links
from gradmatrix.publish.site.markup import in_words, page
from gradmatrix.publish.site.tables import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradmatrix.core.model import Scenario
    from gradmatrix.publish.claims.claims import Claim, Evidence, Judged
    from gradmatrix.publish.rows import Row
    from gradmatrix.publish.site.tables import View

MOST_ENDED = 6
"""The most stacks that are named for an outcome, the newest ones."""
REMEDY_MARKS = {True: ("p", "✓"), None: ("h", "◐"), False: ("f", "✗")}
"""Class and symbol of a remedy that works on all stacks, on some, or on none."""
KINDS = {Verdict.CONFIRMED: "p", Verdict.REFUTED: "f", Verdict.PARTLY: "h", Verdict.UNTESTED: "n"}
"""The class of each verdict in the style sheet."""
MOST_CELLS = 24
"""The most cells that are listed for and against an expectation, those of the newest stacks."""
VARIES = re.compile(r"0x[0-9a-f]+|(?:(?<!\S)-)?\d+(?:[.,:]\d+)*(?:e[+-]?\d+)?", re.IGNORECASE)
"""What differs between occurrences of the same message: numbers, versions, addresses."""
MOST_STACKS = 6
"""The most stacks of a variant that are named, the newest ones."""
PARAMETERS = re.compile(r"(\d+ of \d+ trainable parameters[^:]*): .*")
"""A finding of ours, which ends with the names of parameters."""
OWN = 0.45
"""A text of which a scenario's source has so many letters is the scenario's own."""


class Variant(NamedTuple):
    """A variant with a message, and its newest cells."""

    scenario: str
    variant: str
    role: Role
    device: str
    rows: Sequence[Row]
    left_out: int


class Cause(NamedTuple):
    """One reason for a message."""

    cause: str
    """The cause; or the outcome of cells that fail without one; empty if they pass."""
    newest: Row
    """The newest failing cell, or else the newest cell. Its diagnosis is shown for all."""
    variants: Sequence[Variant]
    cells: int
    tried: Sequence[Tried]
    """The remedies, tested on the stacks on which cells with this message and cause fail."""
    failing: Sequence[Row]
    """The cells that fail, those of the newest stack first."""

    @property
    def row(self) -> causes.Cause | None:
        """Its row in the table of causes."""
        return next((each for each in causes.Cause if each.value == self.cause), None)

    @property
    def why(self) -> Sequence[str]:
        """The diagnosis of the newest cell, without its advice if tested remedies follow."""
        found = self.newest.diagnosis
        if found is None:
            return (in_words(self.newest.outcome),)
        return found.text[:-1] if self.tried and found.remedy is not None else found.text


class Message(NamedTuple):
    """A message, in the words of the newest cell."""

    text: str
    outcomes: Sequence[str]
    """The outcomes of its cells, the most frequent one first."""
    causes: Sequence[Cause]
    cells: int
    failing: int
    telling: int
    """The number of cells of a misuse that pass: the stack reports the mistake."""
    aside: bool = False
    """Whether it is a warning that does not name a problem of training."""

    @property
    def answers(self) -> Sequence[Cause]:
        """The causes that its page explains. A warning beside training is not why cells fail."""
        trains = [cause for cause in self.causes if not cause.cause]
        return trains if self.aside and trains else self.causes

    @property
    def others(self) -> Sequence[Cause]:
        """The causes that its page only names."""
        return [cause for cause in self.causes if cause not in self.answers]

    @property
    def path(self) -> str:
        """The address of its page."""
        return links.answer(signature(self.text))

    @property
    def training(self) -> int:
        """The number of cells that train and have the message all the same."""
        return self.cells - self.failing - self.telling


class Found(NamedTuple):
    """A variant, for the search."""

    row: Row
    """Its newest judged cell."""
    summary: str
    kind: str
    word: str

    @property
    def text(self) -> str:
        """What the search reads."""
        return f"{self.row.scenario} {self.row.variant} {self.row.role.value} {self.summary}"


def text_of(claim: Claim) -> str:
    """What the search reads of a claim."""
    return f"{claim.scenario} {claim.id} {claim.says}"


def messages_page(view: View, claims: Sequence[Judged], said: Messages) -> tuple[str, bytes]:
    """Return errors.html. Its search finds claims and variants too."""
    return page(
        "errors.html",
        links.ERRORS,
        known=said,
        rules=msgspec.json.encode(RULES).decode(),
        variants=list(searched(view)),
        claims=[Marked(judged, KINDS[judged.verdict]) for judged in claims],
        text_of=text_of,
    )


def searched(view: View) -> Iterator[Found]:
    """Yield every judged variant with its newest cell."""
    for scenario in view.table.scenarios.values():
        for variant in scenario.variants:
            places = [(scenario.name, variant.name, device) for device in view.devices]
            rows = (view.row(lock.stack, place) for lock in view.newest_first for place in places)
            newest = next((row for row in rows if row is not None and row.passed is not None), None)
            if newest is not None:
                kind, word, _ = shown(newest)
                yield Found(newest, variant.summary, kind, word)


class Messages(NamedTuple):
    """What all judged cells said, the most frequent first."""

    errors: list[Message]
    warnings: list[Message]
    own: list[Message]
    """What scenarios print, and how variants differ that should agree."""

    @property
    def search(self) -> Search:
        """The search for a message; its numbers count the errors and then the warnings."""
        return Search((each.text for each in self.known), len(self.errors))

    @property
    def known(self) -> list[Message]:
        """What a user's own script may say too."""
        return [*self.errors, *self.warnings]


def messages(view: View, sources: Iterable[str] = ()) -> Messages:
    """Return the messages of all judged cells.

    Args:
        view: The matrix.
        sources: The texts of the scenarios.
    """
    said: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    warned: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    own: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    wording = wording_of(sources)
    alike: dict[str, list[tuple[str, Row]]] = {}
    for lock in view.newest_first:
        for row in view.cells.get(lock.stack, {}).values():
            if row.passed is None:
                continue
            if row.message:
                checked = row.outcome == DISAGREES or row.raised == "AssertionError"
                is_own = checked or (bool(row.raised) and is_worded(row.message, wording))
                text = PARAMETERS.sub(r"\1", row.message)
                (own if is_own else said)[signature(text)].append((text, row))
            for text in row.warnings:
                if text not in alike:
                    alike[text] = (own if is_worded(text, wording) else warned)[signature(text)]
                alike[text].append((text, row))
    warnings = [
        each._replace(aside=not NAMES_THE_PROBLEM.search(each.text))
        for each in in_order(view, warned)
    ]
    return Messages(in_order(view, said), warnings, in_order(view, own))


def wording_of(sources: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of the phrases in the strings of scripts, but not of their docstrings."""
    phrases: set[str] = set()
    for source in sources:
        try:
            nodes = list(ast.walk(ast.parse(source)))
        except (SyntaxError, ValueError):
            continue
        prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        phrases |= {
            one_line(node.value)
            for node in nodes
            if isinstance(node, ast.Constant) and id(node) not in prose
            if isinstance(node.value, str) and " " in node.value
        }
    longest_first = sorted(filter(None, phrases), key=lambda each: (-len(each), each))
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


@lru_cache(maxsize=65536)
def is_worded(text: str, wording: re.Pattern[str]) -> bool:
    """Whether most letters of a text come from phrases of ``wording``."""
    left, every = (sum(map(str.isalpha, each)) for each in (wording.sub("", text), text))
    return every - left > OWN * every


@lru_cache(maxsize=65536)
def signature(text: str) -> str:
    """Return what all occurrences of a message have in common, without a mark that it was cut."""
    return VARIES.sub("#", one_line(text.removesuffix("…"))).lower()


def in_order(view: View, said: dict[str, list[tuple[str, Row]]]) -> list[Message]:
    """Return the messages, the most frequent first."""
    return sorted(
        (message(view, each) for each in said.values()), key=lambda each: (-each.cells, each.text)
    )


def message(view: View, occurrences: Sequence[tuple[str, Row]]) -> Message:
    """Return a message with its causes. ``occurrences`` have the newest stack first."""
    rows = [row for _, row in occurrences]
    by_cause: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_cause[reason(row)].append(row)
    found = [cause_of(view, name, members) for name, members in by_cause.items()]
    return Message(
        text=one_line(occurrences[0][0]),
        outcomes=[outcome for outcome, _ in Counter(row.outcome for row in rows).most_common()],
        causes=sorted(found, key=lambda each: (-len(each.failing), not each.cause, -each.cells)),
        cells=len(rows),
        failing=sum(row.passed is False for row in rows),
        telling=sum(row.passed is True and row.role is Role.MISUSE for row in rows),
    )


def reason(row: Row) -> str:
    """Return the cause of a cell, or the outcome if it fails without one, or nothing."""
    if row.diagnosis is not None:
        return row.diagnosis.cause
    return row.outcome if row.passed is False else ""


def cause_of(view: View, name: str, rows: Sequence[Row]) -> Cause:
    """Return a cause with its cells and the tested remedies."""
    failing = [row for row in rows if row.passed is False]
    return Cause(
        name,
        (failing or rows)[0],
        variants(rows),
        len(rows),
        tried(view, name, failing) if name else (),
        failing,
    )


def variants(rows: Iterable[Row]) -> list[Variant]:
    """Return the cells by variant."""
    found: dict[tuple[str, str, Role, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row.scenario, row.variant, row.role, row.device].append(row)
    return [
        Variant(*place, members[:MOST_STACKS], len(members[MOST_STACKS:]))
        for place, members in sorted(found.items())
    ]


class Ended(NamedTuple):
    """The stacks on which a remedy has the same outcome."""

    outcome: str
    rows: Sequence[Row]
    """The newest ones."""
    left_out: int


Where = defaultdict[tuple[str, str], defaultdict[str, set[str]]]
"""By scenario and device: the stacks, each with the variants that fail there."""


class Tried(NamedTuple):
    """A remedy, tested on the stacks on which its scenario fails for a cause."""

    scenario: str
    variant: str
    device: str
    summary: str
    trains: Ended
    fails: Sequence[Ended]
    judged: int

    @property
    def trained(self) -> int:
        """The number of stacks on which it trains."""
        return len(self.trains.rows) + self.trains.left_out

    @property
    def mark(self) -> tuple[str, str]:
        """Class and symbol: it works on all stacks, on some, or on none."""
        return REMEDY_MARKS[None if 0 < self.trained < self.judged else bool(self.trained)]


def tried(view: View, cause: str, failing: Iterable[Row]) -> list[Tried]:
    """Return the remedies against ``cause``, tested on the stacks of the ``failing`` cells.

    The remedies are those of the scenarios that fail. If these have none, those of all scenarios
    are used. The ``failing`` cells have the newest stack first.
    """
    where: Where = defaultdict(lambda: defaultdict(set))
    anywhere: Where = defaultdict(lambda: defaultdict(set))
    scenarios = view.table.scenarios.values()
    for row in failing:
        where[row.scenario, row.device][row.stack].add(row.variant)
        for scenario in scenarios:
            anywhere[scenario.name, row.device][row.stack].add(row.variant)
    return looked_up(view, cause, where) or looked_up(view, cause, anywhere)


def looked_up(view: View, cause: str, where: Where) -> list[Tried]:
    """Return the remedies of each scenario and device on some stacks."""
    return [
        found
        for (name, device), stacks in sorted(where.items())
        if name in view.table.scenarios
        for found in of_scenario(view, cause, view.table.scenarios[name], device, stacks)
    ]


def of_scenario(
    view: View, cause: str, scenario: Scenario, device: str, stacks: Mapping[str, set[str]]
) -> Iterable[Tried]:
    """Yield the remedies of a scenario that were judged where one of the failing variants fails."""
    for variant in scenario.variants:
        if cause not in variant.cures:
            continue
        place = (scenario.name, variant.name, device)
        rows = [
            row
            for stack, failing in stacks.items()
            if variant.is_tested(failing)
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
    """Return cells with the same outcome, of which the newest are named."""
    return Ended(outcome, rows[:MOST_ENDED], len(rows[MOST_ENDED:]))


class Marked(NamedTuple):
    """A claim with the class of its verdict."""

    judged: Judged
    kind: str


class Side(NamedTuple):
    """The cells that support a claim, or those that contradict it."""

    title: str
    kind: str
    cells: Sequence[Evidence]
    left_out: int


class Group(NamedTuple):
    """The claims of a scenario."""

    scenario: str
    known: bool
    """Whether the scenario has a page."""
    title: str
    claims: Sequence[Marked]
    variants: Sequence[tuple[str, Sequence[Marked]]]
    """Each variant, with the claims that its cells test."""


def claims_page(view: View, claims: Sequence[Judged]) -> tuple[str, bytes]:
    """Return the page of all claims, by scenario, with links by verdict and by variant."""
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
    """Return every scenario with its claims. Cells link to it, even if it has none."""
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
    """Return the cells that support and those that contradict, the newest stacks first."""
    ordered = sorted(evidence, key=lambda each: (age.get(each.cell.stack, len(age)), each.cell))
    found = []
    for bears, title, kind in (("for", "support it", "p"), ("against", "contradict it", "f")):
        cells = [each for each in ordered if each.bears == bears]
        if cells:
            found.append(Side(title, kind, cells[:MOST_CELLS], len(cells[MOST_CELLS:])))
    return found
