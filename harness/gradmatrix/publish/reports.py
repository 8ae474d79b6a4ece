"""A comparison as Markdown, HTML or JSON.

The Markdown is short enough for a comment on a pull request; long parts are folded. The HTML is one
file that contains its style, and neither runs nor loads anything.
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
from gradmatrix.core.text import (
    JOINER,
    LINKED,
    MENTION,
    code,
    counted,
    few,
    one_line,
    unlinked,
    with_code,
)
from gradmatrix.judge.change import Change
from gradmatrix.measure.statistics import Size
from gradmatrix.publish.comparison import contents_of, day, move
from gradmatrix.publish.formats import schema_of
from gradmatrix.publish.site.markup import page, ready

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradmatrix.publish.comparison import Contents, Item, PackageChanges, Section, Together


MARKER = "<!-- gradmatrix: comparison -->"
"""An invisible mark by which the comment is found again."""
MOST_BYTES = 60_000
"""The longest text. GitHub accepts 65,536 characters."""
MOST_OF_THE_END = 400
"""Space kept free for the line that counts what was left out."""
MOST_OF_A_LINE = 400
MOST_MEMBERS = 30
"""The most variants that are named in a line."""
MOST_TOGETHER = 15
"""The most lines of cells for one cause. With thirty names each, they fill a third of a comment."""
MOST_ROWS = 40
SYMBOLS = {
    Verdict.SAFE: "✅",
    Verdict.REGRESSIONS: "❌",
    Verdict.INCONCLUSIVE: "❔",
    Verdict.SPEED_UNKNOWN: "❔",
}
CODE = re.compile(r"`([^`\n]+)`")
LEADING = re.compile(r"^(?=[-+#~=]|\d+[.)])")
"""The start of a line that Markdown would take for a list or a heading."""


def as_markdown(comparison: Comparison) -> str:
    """Return the comparison in Markdown. Parts that do not fit are counted."""
    contents = contents_of(comparison)
    text = "\n".join(
        [
            MARKER,
            f"## {SYMBOLS[comparison.verdict]} {prose(comparison.headline)}",
            "",
            f"{unlinked(contents.sides)}  ",
            prose(contents.summary),
            "",
            *(f"> [!WARNING]\n> {prose(each)}\n" for each in contents.warnings),
        ]
    )
    left = 0
    for block in blocks(contents, comparison):
        if len(text.encode()) + len(block.encode()) > MOST_BYTES - MOST_OF_THE_END:
            left += 1
        else:
            text += block
    return text + (f"\n{left} parts do not fit into this comment.\n" if left else "")


def blocks(contents: Contents, comparison: Comparison) -> Iterator[str]:
    """Yield the parts after the answer, the most important first."""
    for section in contents.sections:
        yield of_section(section)
    if contents.releases:
        lines = "".join(f"- {prose(each)}\n" for each in contents.releases)
        yield f"\n### Which release did it\n\n{lines}"
    yield speed(contents, cells=len(comparison.measured))
    yield losses(contents)
    for changes in contents.packages:
        yield packages(changes, several=comparison.several)
    yield f"\n{unlinked(contents.unmoved)}\n"


def of_section(section: Section) -> str:
    """Return a section, folded if it is not urgent."""
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
    """Return a cause with its diagnosis and its cells."""
    lines = [f"- {item.mark} **{prose(item.title)}**, {counted(item.count, 'cell')}"]
    lines += [f"  - {named(each)}" for each in item.cells[:MOST_TOGETHER]]
    if len(item.cells) > MOST_TOGETHER:
        lines.append(f"  - … and {len(item.cells) - MOST_TOGETHER} more lines of cells")
    lines += [f"  - {prose(line)}" for line in item.lines]
    if item.advice:
        lines.append(f"  - 💡 {prose(item.advice)}")
    return "\n".join(lines) + "\n"


def named(cells: Together) -> str:
    """Return the names of the cells of one scenario; of many, only the first."""
    return f"{code(cells.head)}: {few(list(map(unlinked, cells.members)), MOST_MEMBERS)}"


def speed(contents: Contents, *, cells: int) -> str:
    """Return the table of speed and memory, folded unless something became slower or larger.

    Args:
        contents: What the report shows.
        cells: How many cells were measured.
    """
    rows = contents.ratios
    if not rows:
        return f"\n**Speed and memory.** {unlinked(contents.measuring)}\n"
    columns = [(r.cell, r.quantity, r.verdict, r.ratio, r.values, r.noise, r.why) for r in rows]
    head = ("cell", "", "verdict", "candidate / baseline", "median", "noise", "")
    text = f"{unlinked(contents.measuring)}\n\n{table(head, columns)}"
    if any(each.size in (Size.MORE, Size.PROBABLY_MORE) for each in rows):
        return f"\n### Speed and memory\n\n{text}"
    return folded(f"Speed and memory ({counted(cells, 'cell')})", text)


def losses(contents: Contents) -> str:
    """Return the drift of losses."""
    if not contents.drift_summary:
        return ""
    cells = [(" · ".join(map(str, each.cells)), each.words) for each in contents.drifted]
    rows = table(("cells", "relative difference"), cells)
    return folded("Drift of losses", f"{unlinked(contents.drift_summary)}\n\n{rows}")


def packages(changes: PackageChanges, *, several: bool) -> str:
    """Return the changed packages."""
    summary = unlinked(changes.summary)
    of = f" of {changes.candidate}" if several else ""
    count = len(changes.direct) + len(changes.transitive)
    if not count:
        return f"\n**What changed{unlinked(of)}.** {summary}\n"
    first = table(("package", "release"), [(each.name, move(each)) for each in changes.direct])
    rest = ", ".join(map(str, changes.transitive))
    others = f"\nTransitive: {unlinked(shortened(rest, MOST_OF_A_LINE * 10))}\n" if rest else ""
    return folded(
        f"What changed{of} ({counted(count, 'package')})", f"{summary}\n\n{first}{others}"
    )


def folded(title: str, text: str) -> str:
    """Return a part that opens with a click."""
    return f"\n<details><summary><b>{as_html_text(title)}</b></summary>\n\n{text}\n</details>\n"


def as_html_text(text: str) -> str:
    """Return ``text`` for HTML inside Markdown: no markup, no link, no mention."""
    return html.escape(LINKED.sub(JOINER, MENTION.sub(JOINER, one_line(text))))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of the first rows, and how many more there are."""
    rows = list(rows)
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    lines += [
        f"| {' | '.join(unlinked(shortened(cell)) for cell in row)} |" for row in rows[:MOST_ROWS]
    ]
    more = f"\n… and {len(rows) - MOST_ROWS} more rows.\n" if len(rows) > MOST_ROWS else ""
    return "\n".join(lines) + f"\n{more}"


def prose(text: str) -> str:
    """Return a sentence in Markdown.

    Text in backticks is code. Nothing else is markup, a link or a mention.
    """
    return with_code(CODE.split(LEADING.sub(JOINER, shortened(text).strip())))


def shortened(text: str, most: int = MOST_OF_A_LINE) -> str:
    """Return ``text``, cut if it is too long."""
    return text if len(text) <= most else f"{one_line(text)[:most]}…"


HERE = Path(__file__).resolve().parent
STYLES = (HERE / "static" / "style.css", HERE / "templates" / "comparison.css")
"""The style of the published pages, and what only this page needs."""
TONES = {
    Verdict.SAFE: "p",
    Verdict.REGRESSIONS: "f",
    Verdict.INCONCLUSIVE: "h",
    Verdict.SPEED_UNKNOWN: "h",
}
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
OF_SIZES = {
    Size.MORE: "f",
    Size.PROBABLY_MORE: "h",
    Size.SAME: "",
    Size.PROBABLY_LESS: "p",
    Size.LESS: "p",
    Size.INCONCLUSIVE: "h",
}


def as_html(comparison: Comparison) -> bytes:
    """Return the comparison as one HTML page."""
    return own_page(
        "comparison.html",
        comparison=comparison,
        tone=TONES[comparison.verdict],
        tones=OF_CHANGES,
        sizes=OF_SIZES,
        contents=contents_of(comparison),
        day=day,
    )


def own_page(template: str, **values: object) -> bytes:
    """Return a page that contains its style, and neither runs nor loads anything."""
    style = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
    _, content = page(template, template, style=ready(style), style_hash=hash_of(style), **values)
    return content


def hash_of(text: str) -> str:
    """Return the hash by which a content security policy allows exactly this inline text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


class Form(StrEnum):
    """The form in which a comparison is written."""

    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


@dataclass(frozen=True)
class Report:
    """A comparison in one form."""

    form: Form
    target: str
    """A file, or "-" for standard output."""
    content: bytes


def reports(comparison: Comparison, asked: Mapping[Form, str]) -> Iterator[Report]:
    """Yield a report for each form in ``asked``, which maps forms to targets."""
    for form, target in asked.items():
        yield Report(form, target, WRITERS[form](comparison))


def as_schema() -> bytes:
    """Return the JSON Schema of a comparison."""
    return schema_of(
        Comparison, "A comparison of gradmatrix: a candidate against a baseline, cell by cell"
    )


WRITERS = {
    Form.MARKDOWN: lambda comparison: as_markdown(comparison).encode(),
    Form.HTML: as_html,
    Form.JSON: as_json,
}
