"""The list of all pages but the evidence, in the order of a reader, and the data for the filters.

``site/data.js`` has every cell of the matrix. It is so small that explore.js can search all of them
at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gradmatrix.core.model import SHOWN
from gradmatrix.core.outcomes import TRAINS, outcomes_by_phase
from gradmatrix.core.text import plain
from gradmatrix.publish.formats import described, pairwise_entries
from gradmatrix.publish.site import links
from gradmatrix.publish.site.answers import answer_pages
from gradmatrix.publish.site.front import front_pages
from gradmatrix.publish.site.history import history_page
from gradmatrix.publish.site.markup import GLOSSARY, ROLES, in_words, page
from gradmatrix.publish.site.messages import claims_page, messages, messages_page
from gradmatrix.publish.site.pages import package_pages, scenario_pages
from gradmatrix.publish.site.releases import ranked
from gradmatrix.publish.site.tables import NOT_RUN, TITLES, View, in_cell, section_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from markupsafe import Markup

    from gradmatrix.compare.history import History
    from gradmatrix.publish.formats import Results
    from gradmatrix.publish.rows import Row
    from gradmatrix.publish.site.tables import Line, Shown

PATH = "site/data.js"
ALPHABET = "".join(
    chr(code) for code in (*range(0x23, 0x7F), *range(0xA1, 0x800)) if chr(code) not in "\\<"
)
"""One letter for each kind of cell, without those that JSON would escape."""
Kind = tuple[str, str, str, str, str]
"""Class, word and note of a cell, its outcome and gradient status. The note ``#`` is a rate."""
STATIC = Path(__file__).resolve().parent.parent / "static"


def site_files(
    results: Results, *, history: History | None, source_of: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file but the pages of stacks.

    Args:
        results: The matrix, the judged claims and the chosen stacks.
        history: The published changes; None if there are none.
        source_of: The text of each scenario, by name.
    """
    view = View(results.table)
    pairs = list(pairwise_entries(results))
    yield from front_pages(view, history, pairs)
    yield from scenario_pages(view, source_of)
    yield from package_pages(view)
    said = messages(view, source_of.values())
    yield messages_page(view, results.claims, said)
    yield from answer_pages(view, said)
    yield history_page(view, history)
    yield claims_page(view, results.claims)
    if pairs:
        ran = {row.stack for row in view.table.rows}
        yield page(
            "pairwise.html", links.PAIRWISE, pairs=pairs, tables=combined_tables(view), ran=ran
        )
    yield page(
        "query.html",
        links.QUERY,
        phases=outcomes_by_phase(),
        glossary=GLOSSARY,
        roles=ROLES,
        trains=in_words(TRAINS),
        files=described(),
    )
    yield data_file(view)
    for path in sorted(STATIC.glob("*.*")):
        yield f"site/{path.name}", path.read_bytes()


def combined_tables(view: View) -> list[Markup]:
    """Return the cells of the stacks of [generate.pairwise], the newest releases first."""
    locks = sorted(
        (lock for lock in view.table.locks if lock.stack in view.table.combined),
        key=lambda lock: [ranked(view.versions[lock.stack].get(name, "")) for name in SHOWN],
        reverse=True,
    )
    ran = {place for lock in locks for place in view.cells[lock.stack]}
    sections = (
        replace(each, lines=tuple(line for line in each.lines if line.place in ran))
        for each in view.sections
    )
    return [section_table(view, each, locks, "") for each in sections if each.lines]


def data_file(view: View) -> tuple[str, bytes]:
    """Return the script that defines GRADMATRIX. draw.js describes what it reads."""
    content = (
        b",\n".join(msgspec.json.encode({name: each})[1:-1] for name, each in data(view).items())
        .decode()
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
    )
    return PATH, f'"use strict";\nconst GRADMATRIX = {{{content}}};\n'.encode()


def data(view: View) -> dict[str, Any]:
    """Return everything that draw.js needs. The stacks are those of the tables."""
    locks = view.table.dated[::-1]
    found = [view.versions[lock.stack] for lock in locks]
    ranks = {name: sorted({v[name] for v in found if name in v}, key=ranked) for name in SHOWN}
    lines = [
        (line, number) for number, section in enumerate(view.sections) for line in section.lines
    ]
    courses = [[coded(view.row(lock.stack, line.place)) for lock in locks] for line, _ in lines]
    kinds = [
        kind
        for kind, _ in Counter(kind for course in courses for kind, _ in course).most_common(
            len(ALPHABET)
        )
    ]
    letters = dict(zip(kinds, ALPHABET, strict=False))
    return {
        "alphabet": ALPHABET[: len(kinds)],
        "kinds": kinds,
        "titles": {word: TITLES[word] for _, word, *_ in kinds if word in TITLES},
        "packages": {name: [plain(each) for each in versions] for name, versions in ranks.items()},
        "stacks": [
            [
                lock.stack,
                f"{lock.as_of}",
                [place(ranks[name], view.versions[lock.stack].get(name)) for name in SHOWN],
                plain(build) if (build := view.builds.get(lock.stack)) is not None else None,
            ]
            for lock in locks
        ],
        "sections": [
            [section.question, section.device, section.misuse] for section in view.sections
        ],
        "rows": [
            row_of(line, number, course, letters)
            for (line, number), course in zip(lines, courses, strict=True)
        ],
    }


def place(versions: list[str], version: str | None) -> int | None:
    """Return the index of a version; None if the stack does not have the package."""
    return versions.index(version) if version is not None else None


def row_of(
    line: Line, section: int, course: Iterable[tuple[Kind, str]], letters: dict[Kind, str]
) -> list[Any]:
    """Return a variant: section, names, role, a letter for each stack, and the rates in order."""
    cells = list(course)
    text = "".join(letters[kind] for kind, _ in cells)
    rates = ",".join(rate for kind, rate in cells if kind[2] == "#")
    return [section, plain(line.scenario), plain(line.variant), line.role.value, text, rates]


def coded(row: Row | None) -> tuple[Kind, str]:
    """Return the kind of a cell, and its rate."""
    if row is None:
        return kind_of(NOT_RUN, "not run", ""), ""
    what = in_cell(row)
    gradient = row.gradient.value if row.gradient is not None else ""
    if what.note.endswith("/s"):
        return kind_of(what._replace(note="#"), row.outcome, gradient), what.note.removesuffix("/s")
    return kind_of(what, row.outcome, gradient), ""


def kind_of(what: Shown, outcome: str, gradient: str) -> Kind:
    """Return what all cells of a kind have in common."""
    return what.kind, what.word, what.note, outcome, gradient
