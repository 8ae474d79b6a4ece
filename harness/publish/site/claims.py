"""claims.html: what people published, and what the records say of it, with the cells on either side."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from harness.claims import Verdict
from harness.publish.site import links
from harness.publish.site.markup import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.claims import Evidence, Judged
    from harness.publish.site.view import View

MARKS = {
    Verdict.CONFIRMED: ("p", "✓"),
    Verdict.REFUTED: ("f", "✗"),
    Verdict.PARTLY: ("h", "◐"),
    Verdict.UNTESTED: ("n", "–"),
}
MOST_CELLS = 24
"""Cells of an expectation that the page names on either side, those of the newest stacks."""


class Marked(NamedTuple):
    """A claim with the class and symbol of its verdict."""

    judged: Judged
    kind: str
    symbol: str


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
    marked = [Marked(judged, *MARKS[judged.verdict]) for judged in claims]
    by_verdict: dict[Verdict, list[Marked]] = defaultdict(list)
    for each in marked:
        by_verdict[each.judged.verdict].append(each)
    return page(
        "claims.html",
        links.CLAIMS,
        verdicts=[(verdict.value, *MARKS[verdict], by_verdict[verdict]) for verdict in Verdict if by_verdict[verdict]],
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
            [(v.name, list(resting[name, v.name].values())) for v in known[name].variants] if name in known else [],
        )
        for name in dict.fromkeys([*known, *(each.judged.claim.scenario for each in claims)])
    ]


def sides(evidence: Sequence[Evidence], age: dict[str, int]) -> list[Side]:
    """What speaks for and against, of the newest stacks first."""
    ordered = sorted(evidence, key=lambda each: (age.get(each.cell.stack, len(age)), each.cell))
    found = []
    for bears, title, kind in (("for", "for it", "p"), ("against", "against it", "f")):
        cells = [each for each in ordered if each.bears == bears]
        if cells:
            found.append(Side(title, kind, cells[:MOST_CELLS], len(cells[MOST_CELLS:])))
    return found
