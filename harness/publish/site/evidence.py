"""The evidence of the cells of one stack, on one page.

A hundred thousand cells are written in seconds: the page's frame is a template, the cells are strings, and a disk takes
a few big files more quickly than many small ones.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from harness.model import SHOWN
from harness.publish.site import links
from harness.publish.site.article import Known, article
from harness.publish.site.cells import shown
from harness.publish.site.markup import page, ready, safe
from harness.publish.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.model import Lock, Record, Scenario
    from harness.publish.rows import Row

NO_DEVICE = "setup:no-device"
HERE = ready("<!-- cells -->")
"""Where the template has the cells."""


def evidence_page(
    lock: Lock, scenarios: Mapping[str, Scenario], records: Sequence[Record], rows: Sequence[Row]
) -> tuple[str, bytes]:
    """The page of one stack; ``rows`` are those of its ``records``, in their order."""
    cells = sorted(zip(records, rows, strict=True), key=lambda pair: pair[1].scenario)
    environment: dict[str, str] = {}
    for record in records:  # each names what was imported by then
        environment |= record.observation.environment if record.observation is not None else {}
    order = {name: place for place, name in enumerate(scenarios)}
    versions = versions_of(lock)
    sections = [
        section(scenarios.get(name), name, list(members), known_of(scenarios.get(name), environment, versions))
        for name, members in groupby(cells, key=lambda pair: pair[1].scenario)
    ]
    sections.sort(key=lambda each: order.get(each.scenario, len(order)))
    path, frame = page(
        "evidence.html",
        links.evidence_page(lock.stack),
        lock=lock,
        contents=ready("".join(each.contents for each in sections)),
        articles=HERE,
        environment=", ".join(f"{name} {version}" for name, version in environment.items() if version),
        absent=sorted({row.device for row in rows if row.outcome == NO_DEVICE}),
    )
    before, _, after = frame.partition(HERE.encode())  # a template would copy what is big five times
    return path, b"".join([before, *(piece.encode() for each in sections for piece in each.articles), after])


class Section(NamedTuple):
    """The cells of a scenario."""

    scenario: str
    contents: str
    """Its part of the table of contents."""
    articles: Sequence[str]


def section(scenario: Scenario | None, name: str, cells: Sequence[tuple[Record, Row]], known: Known) -> Section:
    """The part of a scenario; nothing where no cell was judged."""
    judged = in_order([pair for pair in cells if pair[1].outcome != NO_DEVICE], scenario)
    if not judged:
        return Section(name, "", ())
    articles = [article(record, row, known) for record, row in judged]
    anchor, told = plain(name), safe(name)
    title = f'<p class="lead">{safe(scenario.title)}</p>' if scenario is not None else ""
    heading = f'<h2><a href="../{links.scenario(name)}">{told}</a></h2>'
    entries = "".join(entry(row) for _, row in judged)
    return Section(
        name,
        f'<p><a href="#{links.quoted(anchor)}">{told}</a></p><ul>{entries}</ul>',
        (f'<section id="{safe(anchor)}">{heading}{title}', *articles, "</section>"),
    )


def known_of(scenario: Scenario | None, environment: Mapping[str, str], versions: str) -> Known:
    """What the cells of a scenario have in common."""
    if scenario is None:
        return Known({}, environment, versions, (), own=True)
    summaries = {variant.name: variant.summary for variant in scenario.variants}
    return Known(summaries, environment, versions, scenario.agree, own=scenario.arguments is None)


def versions_of(lock: Lock) -> str:
    """The versions that tell a stack from another one, as HTML; a reader who comes by an anchor sees no more."""
    locked = {package.name: package.version for package in lock.packages}
    told = ", ".join(f"{name} {safe(locked[name])}" for name in SHOWN if name in locked)
    return f'<a href="../{links.stack(lock.stack)}">{told or "No version is known"}</a>'


def in_order(cells: list[tuple[Record, Row]], scenario: Scenario | None) -> list[tuple[Record, Row]]:
    """By device, then as the scenario orders its variants."""
    names = [variant.name for variant in scenario.variants] if scenario is not None else []
    order = {name: place for place, name in enumerate(names)}
    return sorted(cells, key=lambda pair: (pair[1].device, order.get(pair[1].variant, len(order))))


def entry(row: Row) -> str:
    """A line of the page's table of contents."""
    kind, word, note = shown(row)
    name = f"{row.variant} ({row.device})" if row.device != "cpu" else row.variant
    anchor = links.quoted(links.anchor(row.scenario, row.variant, row.device))
    return f'<li><a class="{kind}" href="#{anchor}"><b>{safe(name)}</b> {safe(word)} {safe(note)}</a></li>'
