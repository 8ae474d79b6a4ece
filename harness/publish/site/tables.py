"""The matrix as HTML tables: rows are variants, columns stacks, the newest first."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from harness.model import SHOWN, Role
from harness.publish.site import links
from harness.publish.site.cells import table_cell
from harness.publish.site.markup import ready, safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from harness.model import Lock
    from harness.publish.rows import Row
    from harness.publish.site.view import Line, Section, View


BUILD_OF_TORCH = "build of torch"


def section_table(view: View, section: Section, locks: Sequence[Lock], root: str) -> Markup:
    """A question's rows on some stacks, in a region that scrolls."""
    title = f"{section.question} ({section.device})"
    body = []
    for scenario, lines in groupby(section.lines, key=lambda line: line.scenario):
        body.append(f"<tbody>{scenario_head(scenario, len(locks), root)}")
        body += (table_line(view, line, locks, root) for line in lines)
        body.append("</tbody>")
    return region(title, head(view, locks, root) + "".join(body), section.anchor)


def region(title: str, rows: str, anchor: str) -> Markup:
    """A table that scrolls by itself, also with the keyboard."""
    name = f"{safe(anchor)}-caption"
    return ready(
        f'<div class="region matrix" role="region" tabindex="0" aria-labelledby="{name}">'
        f'<table><caption id="{name}">{safe(title)}</caption>{rows}</table></div>'
    )


def head(view: View, locks: Sequence[Lock], root: str) -> str:
    """The stacks with their dates and versions; a version that moved since the stack before stands out.

    The build of torch is told where the stacks differ in it.
    """
    names = "".join(
        f'<th scope="col"><a href="{root}{links.stack(lock.stack)}">{breakable(lock.stack)}</a></th>' for lock in locks
    )
    dates = "".join(f"<td>{lock.as_of}</td>" for lock in locks)
    rows = [f'<tr class="stacks"><th scope="col">stack</th>{names}</tr>', line_of("as of", dates)]
    for name in SHOWN:
        versions = "".join(f"<td>{version(view, lock, name)}</td>" for lock in locks)
        rows.append(line_of(f'<a href="{root}{links.package(name)}">{name}</a>', versions))
    if view.builds:
        rows.append(line_of(BUILD_OF_TORCH, "".join(f"<td>{build(view, lock)}</td>" for lock in locks)))
    return f"<thead>{''.join(rows)}</thead>"


def line_of(title: str, cells: str) -> str:
    """A line of the head."""
    return f'<tr class="version"><th scope="row">{title}</th>{cells}</tr>'


def version(view: View, lock: Lock, name: str) -> str:
    """The release of a package, in bold where the stack before has another one."""
    before = view.before.get(lock.stack)
    mine = view.versions[lock.stack].get(name)
    return beside(mine, view.versions[before].get(name) if before is not None else mine)


def build(view: View, lock: Lock) -> str:
    """The build of torch, in bold where the stack before has another one."""
    before = view.before.get(lock.stack)
    mine = view.builds.get(lock.stack)
    return beside(mine, view.builds.get(before) if before is not None else mine)


def beside(mine: str | None, other: str | None) -> str:
    """A text of a stack, in bold where the stack before has another one."""
    if mine is None:
        return "–"
    return f"<b>{safe(mine)}</b>" if mine != other else safe(mine)


def breakable(name: str) -> str:
    """A name that may go on in the next line after a hyphen or an underscore."""
    return safe(name).replace("-", "-<wbr>").replace("_", "_<wbr>")


def scenario_head(name: str, columns: int, root: str) -> str:
    """The line above the variants of a scenario."""
    return (
        f'<tr class="scenario"><th scope="rowgroup"><a href="{root}{links.scenario(name)}">{breakable(name)}</a></th>'
        f'<td colspan="{columns or 1}"></td></tr>'
    )


def table_line(view: View, line: Line, locks: Sequence[Lock], root: str) -> str:
    """A variant and its cells."""
    cells = "".join(table_cell(view.row(lock.stack, line.place), root) for lock in locks)
    name = f'<a href="{root}{links.variant(line.scenario, line.variant)}">{breakable(line.variant)}</a>'
    return f'<tr><th scope="row">{name}<small>{line.role.value}</small></th>{cells}</tr>'


def glance(view: View, locks: Sequence[Lock], root: str) -> Markup:
    """A line per scenario: how many of the variants that people reported as broken pass on each stack."""
    device = next(iter(view.devices), "")
    lines = [line for s in view.sections if s.device == device for line in s.lines if line.role is Role.REPORTED]
    body = []
    for scenario, members in groupby(lines, key=lambda line: line.scenario):
        places = [line.place for line in members]
        cells = "".join(
            counted(scenario, [view.row(lock.stack, place) for place in places], lock, root) for lock in locks
        )
        name = f'<a href="{root}{links.scenario(scenario)}">{breakable(scenario)}</a>'
        body.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    title = f"Of the variants reported as broken, how many pass by now ({device})"
    return region(title, f"{head(view, locks, root)}<tbody>{''.join(body)}</tbody>", "glance")


def counted(scenario: str, rows: Sequence[Row | None], lock: Lock, root: str) -> str:
    """How many of a scenario's cells on one stack pass."""
    judged = [row for row in rows if row is not None and row.passed is not None]
    if not judged:
        return '<td class="n">– not judged</td>' if any(rows) else '<td class="x">not run</td>'
    good = sum(row.passed is True for row in judged)
    kind, symbol = counted_as(good, len(judged))
    target = f"{root}{links.evidence_of(lock.stack, scenario)}"
    return f'<td class="{kind}"><a href="{target}">{symbol} {good} of {len(judged)}</a></td>'


def counted_as(good: int, judged: int) -> tuple[str, str]:
    """Class and symbol of a count: all, none, or some."""
    return ("p", "✓") if good == judged else ("f", "✗") if not good else ("h", "◐")
