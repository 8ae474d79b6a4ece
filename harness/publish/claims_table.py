"""Claims for readers: the table in README, and ``claims.json``."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from harness.claims import Judged, Verdict
from harness.observation import SCHEMA, Frozen
from harness.publish.text import markdown, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SYMBOLS = {Verdict.CONFIRMED: "✓", Verdict.REFUTED: "✗", Verdict.PARTLY: "◐", Verdict.UNTESTED: "–"}
PAGE = "results/claims.html"
"""The page with the cells, as README links it."""
CODE = re.compile(r"`([^`]*)`")
SAFE_CODE = re.compile(r"[\w .,:;=+*/()\[\]{}@#%!?'\"-]+")
"""What may stand between backticks: nothing that ends them, a cell of the table, or is markup anywhere."""


class EvidenceEntry(Frozen, frozen=True):
    """A cell that bears on a claim, for or against it."""

    cell: str
    """``STACK/SCENARIO/VARIANT/DEVICE``"""
    outcome: str
    bears: str
    why: str


class ClaimEntry(Frozen, frozen=True):
    """A claim, its source and its verdict."""

    id: str
    scenario: str
    says: str
    source: str
    url: str
    date: dt.date | None
    reading: str
    verdict: Verdict
    summary: str
    evidence: tuple[EvidenceEntry, ...]


class ClaimsDocument(Frozen, frozen=True):
    """The published claims."""

    schema: int
    claims: tuple[ClaimEntry, ...]


def verdict_words(judged: Judged) -> str:
    """A symbol and a word, never colour alone."""
    return f"{SYMBOLS[judged.verdict]} {judged.verdict}"


def claims_table(judged: Iterable[Judged]) -> str:
    """What was claimed, where, the verdict with a link to its cells, and what was seen, as a Markdown table."""
    lines = ["| claim | source | verdict | what the cells say |", "| --- | --- | --- | --- |"]
    for each in judged:
        claim = each.claim
        day = f", {claim.date}" if claim.date is not None else ""
        source = f"[{markdown(claim.source)}]({claim.url}){day}"
        verdict = f"[{verdict_words(each)}]({PAGE}#{claim.id})"
        lines.append(f"| {coded(claim.says)} | {source} | {verdict} | {coded(each.summary)} |")
    return "\n".join(lines)


def coded(text: str) -> str:
    """``text`` in a Markdown table cell, what stands in backticks as code; all is escaped where they do not pair up."""
    parts = CODE.split(one_line(text))  # every other part stood in backticks
    if any("`" in part for part in parts[::2]) or not all(map(SAFE_CODE.fullmatch, parts[1::2])):
        return markdown(text)
    return "".join(f"`{part}`" if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _escaped(text: str) -> str:
    """``text`` escaped, with the spaces that part it from its neighbours."""
    head, tail = " " * text.startswith(" "), " " * (len(text) > 1 and text.endswith(" "))
    return f"{head}{markdown(text)}{tail}"


def claims_block(judged: Sequence[Judged]) -> str:
    """How the verdicts are distributed, and the table, folded: it is long."""
    counts = Counter(each.verdict for each in judged)
    told = ", ".join(f"{SYMBOLS[verdict]} {counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    head = f"{len(judged)} claims: {told or 'none yet'}."
    return f"{head}\n\n<details>\n<summary>Each of them</summary>\n\n{claims_table(judged)}\n\n</details>"


def entry(judged: Judged) -> ClaimEntry:
    """What ``claims.json`` says of a claim; a cell that bears on two expectations comes twice."""
    claim = judged.claim
    return ClaimEntry(
        id=claim.id,
        scenario=claim.scenario,
        says=claim.says,
        source=claim.source,
        url=claim.url,
        date=claim.date,
        reading=claim.reading,
        verdict=judged.verdict,
        summary=judged.summary,
        evidence=tuple(
            EvidenceEntry(cell=str(each.cell), outcome=each.outcome, bears=each.bears, why=each.why)
            for each in judged.evidence
        ),
    )


def as_json(judged: Iterable[Judged]) -> bytes:
    """``claims.json``: every claim, its verdict and its evidence, one line per claim."""
    lines = b",\n".join(msgspec.json.encode(entry(each)) for each in judged)
    return b'{"schema":%d,\n"claims":[\n%s\n]}\n' % (SCHEMA, lines)
