"""A comparison as Markdown: short enough for a comment on a pull request, what is long folded away.

A comparison as one page in one file: its looks are in it, it runs nothing and loads nothing.

A comparison in every form that was asked for, and the JSON Schema of the one for machines.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from gradmatrix.compare.comparison import Comparison, Verdict, as_json
from gradmatrix.core.text import JOINER, LINKED, MENTION, code, one_line, unlinked
from gradmatrix.judge.change import Change
from gradmatrix.measure.statistics import Size
from gradmatrix.publish.comparison import (
    day,
    direct,
    drift_summary,
    drifted,
    measuring,
    move,
    moved_summary,
    pairs_told,
    ratio_rows,
    sections,
    sides,
    summary,
    transitive,
    unmoved,
    warnings,
)
from gradmatrix.publish.formats import schema_of
from gradmatrix.publish.site.markup import page, ready

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradmatrix.compare.comparison import Pair
    from gradmatrix.publish.comparison import Item, Section, Together


MARKER = "<!-- gradmatrix: comparison -->"
"""By it the comment is found again; nothing of it is shown."""
MOST_BYTES = 60_000
"""Of the whole text: GitHub takes 65,536 characters."""
MOST_OF_THE_END = 400
"""What is kept free for the lines that count what was left out."""
MOST_OF_A_LINE = 400
MOST_MEMBERS = 30
"""Variants that are named of a scenario."""
MOST_TOGETHER = 15
"""Lines of cells that are shown of one cause: with thirty names each they stay below a third of a comment."""
MOST_ROWS = 40
SYMBOLS = {Verdict.SAFE: "✅", Verdict.REGRESSIONS: "❌", Verdict.INCONCLUSIVE: "❔"}
CODE = re.compile(r"`([^`\n]+)`")
LEADING = re.compile(r"^(?=[-+#~=]|\d+[.)])")
"""Where a line would begin as a list or a heading."""


def as_markdown(comparison: Comparison) -> str:
    """The whole comparison, never too long for a comment; what is left out is counted."""
    text = "\n".join(
        [
            MARKER,
            f"## {SYMBOLS[comparison.verdict]} {prose(comparison.headline)}",
            "",
            f"{unlinked(sides(comparison))}  ",
            prose(summary(comparison)),
            "",
            *(f"> [!WARNING]\n> {prose(each)}\n" for each in warnings(comparison)),
        ]
    )
    left = 0
    for block in blocks(comparison):
        if len(text.encode()) + len(block.encode()) > MOST_BYTES - MOST_OF_THE_END:
            left += 1
        else:
            text += block
    return text + (
        f"\n{left} parts were left out: the comment would be too long.\n" if left else ""
    )


def blocks(comparison: Comparison) -> Iterator[str]:
    """What follows the answer, the most important first."""
    for section in sections(comparison):
        yield of_section(section)
    yield speed(comparison)
    yield losses(comparison)
    for pair in pairs_told(comparison):
        yield packages(pair, several=comparison.several)
    yield f"\n{unlinked(unmoved(comparison))}\n"


def of_section(section: Section) -> str:
    """A section; one that needs nobody's attention is folded away."""
    head = f"{section.title} ({section.count})"
    items, size = "", 0
    for place, item in enumerate(section.items):
        text = of_item(item)
        size += len(text.encode())
        if size > MOST_BYTES // 3:
            items += f"- … and {len(section.items) - place} more causes\n"
            break
        items += text
    if section.is_urgent:
        return f"\n### {head}\n\n{unlinked(section.note)}\n\n{items}"
    return folded(head, f"{unlinked(section.note)}\n\n{items}")


def of_item(item: Item) -> str:
    """A cause with its diagnosis and its cells."""
    cells = "1 cell" if item.count == 1 else f"{item.count} cells"
    lines = [f"- {item.mark} **{prose(item.title)}**, {cells}"]
    lines += [f"  - {named(each)}" for each in item.cells[:MOST_TOGETHER]]
    if len(item.cells) > MOST_TOGETHER:
        lines.append(f"  - … and {len(item.cells) - MOST_TOGETHER} more lines of cells")
    lines += [f"  - {prose(line)}" for line in item.lines]
    if item.advice:
        lines.append(f"  - 💡 {prose(item.advice)}")
    return "\n".join(lines) + "\n"


def named(cells: Together) -> str:
    """Cells of one scenario, the first few of many."""
    more = (
        f" and {len(cells.members) - MOST_MEMBERS} more"
        if len(cells.members) > MOST_MEMBERS
        else ""
    )
    return f"{code(cells.head)}: {', '.join(map(unlinked, cells.members[:MOST_MEMBERS]))}{more}"


def speed(comparison: Comparison) -> str:
    """What was measured side by side, as a table; open where something got slower or hungrier."""
    rows = ratio_rows(comparison)
    if not rows:
        return f"\n**Speed and memory.** {unlinked(measuring(comparison))}\n"
    cells = [(r.cell, r.quantity, r.verdict, r.ratio, r.values, r.noise, r.why) for r in rows]
    head = ("cell", "", "verdict", "candidate / baseline", "median", "noise", "")
    text = f"{unlinked(measuring(comparison))}\n\n{table(head, cells)}"
    if any(each.size is Size.MORE for each in rows):
        return f"\n### Speed and memory\n\n{text}"
    return folded(f"Speed and memory ({len(comparison.measured)} cells)", text)


def losses(comparison: Comparison) -> str:
    """The drift of losses."""
    told = drift_summary(comparison)
    if not told:
        return ""
    cells = [(" · ".join(map(str, each.cells)), each.words) for each in drifted(comparison)]
    return folded(
        "Drift of losses", f"{unlinked(told)}\n\n{table(('cells', 'relative difference'), cells)}"
    )


def packages(pair: Pair, *, several: bool) -> str:
    """What moved."""
    told = unlinked(moved_summary(pair))
    of = f" of {pair.candidate.name}" if several else ""
    if not pair.moved:
        return f"\n**What moved{unlinked(of)}.** {told}\n"
    first = table(("package", "release"), [(each.name, move(each)) for each in direct(pair)])
    rest = ", ".join(map(str, transitive(pair)))
    others = f"\nTransitive: {unlinked(shortened(rest, MOST_OF_A_LINE * 10))}\n" if rest else ""
    return folded(f"What moved{of} ({len(pair.moved)} packages)", f"{told}\n\n{first}{others}")


def folded(title: str, text: str) -> str:
    """A part that opens with a click."""
    return f"\n<details><summary><b>{as_html_text(title)}</b></summary>\n\n{text}\n</details>\n"


def as_html_text(text: str) -> str:
    """``text`` where HTML stands in Markdown: no markup, no link, nobody is mentioned."""
    return html.escape(LINKED.sub(JOINER, MENTION.sub(JOINER, one_line(text))))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of the first rows, and how many more there are."""
    rows = list(rows)
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    lines += [
        f"| {' | '.join(unlinked(shortened(cell)) for cell in row)} |" for row in rows[:MOST_ROWS]
    ]
    more = f"\n… and {len(rows) - MOST_ROWS} more rows.\n" if len(rows) > MOST_ROWS else ""
    return "\n".join(lines) + f"\n{more}"


def prose(text: str) -> str:
    """A sentence with what stands in backticks as code; no markup of its own, no link, nobody is mentioned."""
    parts = CODE.split(LEADING.sub(JOINER, shortened(text).strip()))
    return "".join(code(part) if place % 2 else spaced(part) for place, part in enumerate(parts))


def spaced(text: str) -> str:
    """``text`` unlinked, with the spaces at its ends."""
    if not text.strip():
        return " " if text else ""
    return f"{' ' * text.startswith(' ')}{unlinked(text)}{' ' * text.endswith(' ')}"


def shortened(text: str, most: int = MOST_OF_A_LINE) -> str:
    """``text``, the end of a long one left out."""
    return text if len(text) <= most else f"{one_line(text)[:most]}…"


HERE = Path(__file__).resolve().parent
STYLES = (HERE / "static" / "style.css", HERE / "static" / "comparison.css")
"""That of the published matrix, and what only this page has."""
TONES = {Verdict.SAFE: "p", Verdict.REGRESSIONS: "f", Verdict.INCONCLUSIVE: "h"}
OF_CHANGES = {
    Change.REGRESSED: "f",
    Change.BROKE_DIFFERENTLY: "f",
    Change.FIXED: "p",
    Change.INCONCLUSIVE: "h",
    Change.ELSEWHERE: "n",
    Change.NEW: "n",
    Change.GONE: "n",
    Change.UNCHANGED: "n",
}
OF_SIZES = {Size.MORE: "f", Size.LESS: "p", Size.SAME: "", Size.INCONCLUSIVE: "h"}


def as_html(comparison: Comparison) -> bytes:
    """The page."""
    style = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
    _, content = page(
        "comparison.html",
        "comparison.html",
        comparison=comparison,
        style=ready(style),
        style_hash=hash_of(style),
        tone=TONES[comparison.verdict],
        tones=OF_CHANGES,
        sizes=OF_SIZES,
        sides=sides(comparison),
        summary=summary(comparison),
        warnings=warnings(comparison),
        sections=sections(comparison),
        measuring=measuring(comparison),
        ratios=ratio_rows(comparison),
        drift_summary=drift_summary(comparison),
        drifted=drifted(comparison),
        day=day,
        pairs=[
            {
                "pair": each,
                "summary": moved_summary(each),
                "direct": direct(each),
                "transitive": transitive(each),
            }
            for each in pairs_told(comparison)
        ],
        unmoved=unmoved(comparison),
    )
    return content


def hash_of(text: str) -> str:
    """The source by which a content security policy allows this text inline, and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


class Form(StrEnum):
    """In which form a comparison is written."""

    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


@dataclass(frozen=True)
class Report:
    """A comparison in one form."""

    form: Form
    target: str
    """A file, or "-" for the standard output."""
    content: bytes


def reports(comparison: Comparison, asked: Mapping[Form, str]) -> Iterator[Report]:
    """The asked forms with their content; ``asked`` has the target of each."""
    for form, target in asked.items():
        yield Report(form, target, WRITERS[form](comparison))


def as_schema() -> bytes:
    """The JSON Schema of a comparison."""
    return schema_of(
        Comparison, "A comparison of gradmatrix: a candidate against a baseline, cell by cell"
    )


WRITERS = {
    Form.MARKDOWN: lambda comparison: as_markdown(comparison).encode(),
    Form.HTML: as_html,
    Form.JSON: as_json,
}
