"""A page per stack: its lock, how stale it is, what moved since the stack before, and all its cells."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from harness.lock import fallen_behind
from harness.model import SHOWN
from harness.publish.site import links
from harness.publish.site.cells import broken, shown
from harness.publish.site.markup import coded, page, ready, safe
from harness.publish.site.sentences import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markupsafe import Markup

    from harness.model import Lock, LockedPackage
    from harness.publish.rows import Row
    from harness.publish.site.view import Section, View

ROOT = "../"
MEBI = 2**20


def stack_pages(view: View) -> Iterator[tuple[str, bytes]]:
    """The page of each stack."""
    locks = view.table.locks
    for place, lock in enumerate(locks):
        older = locks[place - 1] if place else None
        newer = locks[place + 1] if place + 1 < len(locks) else None
        yield stack_page(view, lock, older, newer)


def stack_page(view: View, lock: Lock, older: Lock | None, newer: Lock | None) -> tuple[str, bytes]:
    """The page of a stack between its neighbours by date."""
    return page(
        "stack.html",
        f"stacks/{lock.stack}.html",
        lock=lock,
        older=older,
        newer=newer,
        shown=[(name, view.versions[lock.stack].get(name)) for name in SHOWN],
        stale=fallen_behind(lock, SHOWN),
        moved=view.moves.between(older.stack, lock.stack) if older is not None else (),
        sections=[(section, section_rows(view, section, lock.stack)) for section in view.sections],
        absent=view.absent,
        packages=ready("".join(map(package_line, lock.packages))),
        ran=lock.stack in view.cells,
        build=view.table.builds.get(lock.stack),
        unlike=bool(view.builds),
        tally=tally(list(view.cells.get(lock.stack, {}).values())),
    )


def tally(rows: Sequence[Row]) -> str:
    """How many of the cells pass, in words."""
    judged = [row for row in rows if row.passed is not None]
    return f"{sum(row.passed is True for row in judged)} of {len(judged)} judged cells pass" if judged else "Not judged"


def section_rows(view: View, section: Section, stack: str) -> Markup:
    """A line per cell."""
    body = []
    for scenario, lines in groupby(section.lines, key=lambda line: line.scenario):
        body.append(
            f'<tbody><tr class="scenario"><th scope="rowgroup" colspan="5">'
            f'<a href="{ROOT}{links.scenario(scenario)}">{safe(scenario)}</a></th></tr>'
        )
        body += (cell_line(view.row(stack, line.place), line.variant) for line in lines)
        body.append("</tbody>")
    return ready("".join(body))


def cell_line(row: Row | None, variant: str) -> str:
    """A cell with what was said or seen of it."""
    if row is None:
        return f'<tr><th scope="row">{safe(variant)}</th><td class="x">not run</td><td></td><td></td><td></td></tr>'
    kind, word, note = shown(row)
    memory = f"{row.peak_memory_bytes / MEBI:,.0f} MiB" if row.peak_memory_bytes is not None else ""
    why = (
        row.diagnosis.text[0]
        if row.diagnosis is not None
        else row.message or ("" if row.passed else in_words(row.outcome))
    )
    return (
        f'<tr><th scope="row">{safe(variant)}<small>{row.role.value}</small></th>'
        f'<td class="{kind}"><a href="{ROOT}{links.evidence(row)}">{broken(word)}</a></td><td>{safe(note)}</td>'
        f"<td>{memory}</td><td>{coded(why)}</td></tr>"
    )


def package_line(package: LockedPackage) -> str:
    """A locked package beside the newest release of the stack's day."""
    days = package.behind_days
    behind = f"{days} days" if days else ""
    return (
        f'<tr><th scope="row">{safe(package.name)}</th><td>{safe(package.version)}</td>'
        f"<td>{package.released or '–'}</td><td>{safe(package.newest or '–')}</td><td>{behind}</td></tr>"
    )
