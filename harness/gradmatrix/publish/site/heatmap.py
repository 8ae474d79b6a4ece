"""The heat map: how many variants of each scenario train on each stack, and where that changes.

Neighbouring stacks with the same verdicts share a column. Stacks that have no judged scenario in
common (those of one framework alone, for example) stand in maps of their own, so that no map has
a column or a row without a verdict.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.model import SHOWN, Role
from gradmatrix.core.text import few, listed
from gradmatrix.publish.site import links
from gradmatrix.publish.site.markup import safe
from gradmatrix.publish.site.tables import (
    WINDOW,
    change_of,
    counted_as,
    head_of,
    line_of,
    link,
    region,
    turning_points,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup

    from gradmatrix.core.model import Lock
    from gradmatrix.publish.site.tables import Line, Place, TurningPoint, View

ENOUGH, FEW = 2 / 3, 1 / 3
"""From which share on a cell is nearly blue, and up to which it is nearly orange."""
SIGNS = {"fixed": ("p", "+"), "broken": ("f", "\N{MINUS SIGN}")}
"""Class and sign of a change on the map."""
MOST_NAMES = 8
"""The most stacks of a column that its name lists."""
NOT_KNOWN = "release not known"


class Column(NamedTuple):
    """Neighbouring stacks with the same verdicts, the newest first."""

    locks: tuple[Lock, ...]

    @property
    def name(self) -> str:
        """The stack that stands for all: the newest one of releases."""
        return min(self.locks, key=lambda lock: lock.prereleases).stack

    @property
    def others(self) -> int:
        """How many other stacks it stands for."""
        return len(self.locks) - 1


class Map(NamedTuple):
    """A table of the heat map."""

    table: Markup
    folded: list[Column]
    """Columns that stand for several stacks."""


class Heat(NamedTuple):
    """The heat map."""

    device: str
    noun: str
    """What is counted."""
    maps: list[Map]
    columns: int
    """How many columns there are, also those that are not shown."""
    left_out: int
    """How many of them are not shown."""


def heat_map(view: View, most: int | None = WINDOW) -> Heat | None:
    """Return the heat map of the first device; None if nothing was judged.

    Args:
        view: The matrix.
        most: How many columns a map shows at most, the newest ones; None for all, in several maps.
    """
    device = next(iter(view.devices), "")
    trained = [
        line
        for section in view.sections
        if section.device == device and not section.misuse
        for line in section.lines
    ]
    reported = [line for line in trained if line.role is Role.REPORTED]
    rows = by_scenario(reported or trained)
    maps: list[Map] = []
    columns, left_out = 0, 0
    for locks in kin(view, rows):
        folded = list(fold(view, rows, locks))
        windows = [folded[at : at + WINDOW] for at in range(0, len(folded), WINDOW)]
        shown = windows if most is None else [folded[:most]]
        columns += len(folded)
        left_out += len(folded) - sum(map(len, shown))
        for window in shown:
            maps.append(drawn(view, rows, window, f"map-{len(maps)}"))
    noun = "reported variants" if reported else "variants"
    return Heat(device, noun, maps, columns, left_out) if maps else None


def by_scenario(lines: Sequence[Line]) -> dict[str, list[Place]]:
    """Return the variants of each scenario."""
    return {
        scenario: [line.place for line in members]
        for scenario, members in groupby(lines, key=lambda line: line.scenario)
    }


def verdicts(view: View, lock: Lock, places: Sequence[Place]) -> tuple[bool | None, ...]:
    """Return which cells of a stack pass; None if one was not judged."""
    rows = (view.row(lock.stack, place) for place in places)
    return tuple(row.passed if row is not None else None for row in rows)


def kin(view: View, rows: Mapping[str, Sequence[Place]]) -> list[list[Lock]]:
    """Return the stacks on which something was judged, in groups; the largest group first.

    Two stacks are in one group if the same scenario was judged on both, or on a chain of others.
    """
    groups: list[tuple[set[str], list[Lock]]] = []
    for lock in view.table.dated[::-1]:
        judged = {name for name, places in rows.items() if {*verdicts(view, lock, places)} - {None}}
        if not judged:
            continue
        mine = judged, [lock]
        near = [group for group in groups if group[0] & judged]
        for names, members in near:
            mine = mine[0] | names, mine[1] + members
        groups = [*(group for group in groups if group not in near), mine]
    order = {lock.stack: place for place, lock in enumerate(view.newest_first)}
    found = [sorted(members, key=lambda lock: order[lock.stack]) for _, members in groups]
    return sorted(found, key=lambda members: (-len(members), order[members[0].stack]))


def fold(
    view: View, rows: Mapping[str, Sequence[Place]], locks: Sequence[Lock]
) -> Iterator[Column]:
    """Yield the columns of a group: neighbours with the same verdicts share one."""
    places = [place for each in rows.values() for place in each]
    for _, members in groupby(locks, key=lambda lock: verdicts(view, lock, places)):
        yield Column(tuple(members))


def drawn(
    view: View, rows: Mapping[str, Sequence[Place]], columns: Sequence[Column], anchor: str
) -> Map:
    """Return a table of some columns, with the scenarios that were judged there."""
    body = []
    for scenario, places in rows.items():
        seen = [verdicts(view, column.locks[0], places) for column in columns]
        if not any({*each} - {None} for each in seen):
            continue
        turns = turns_of(view, places)
        cells = "".join(
            heat_cell(view, scenario, column, each, turns)
            for column, each in zip(columns, seen, strict=True)
        )
        name = link(links.scenario(scenario), scenario)
        body.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    title = f"{columns[0].locks[0].as_of} back to {columns[-1].locks[-1].as_of}"
    lines = "\n".join(body)
    table = region(title, f"{head(view, columns)}<tbody>{lines}</tbody>", anchor, "matrix map")
    return Map(table, [column for column in columns if column.others])


def head(view: View, columns: Sequence[Column]) -> str:
    """Return the names of the stacks with their dates, and their main packages."""
    names = "".join(f'<th scope="col">{column_name(column)}</th>' for column in columns)
    lines = [f'<tr class="stacks"><th scope="col">stack</th>{names}</tr>']
    for name in SHOWN:
        versions = "".join(f"<td>{versions_in(view, name, column)}</td>" for column in columns)
        lines.append(line_of(link(links.package(name), name), versions))
    return head_of(lines)


def column_name(column: Column) -> str:
    """Return the name of a column as a link, its date, and how many other stacks it stands for."""
    more = f" + {column.others}" if column.others else ""
    title = (
        f' title="{safe(few([lock.stack for lock in column.locks], MOST_NAMES))}"' if more else ""
    )
    return (
        f'<a href="{links.stack(column.name)}"{title}><span>{safe(column.name)}{more}</span>'
        f"<small>{column.locks[0].as_of}</small></a>"
    )


def versions_in(view: View, name: str, column: Column) -> str:
    """Return the newest and the oldest release of a package in a column."""
    found = dict.fromkeys(view.versions[lock.stack].get(name, "–") for lock in column.locks)
    newest, *others = (safe(each).replace(".post", "<wbr>.post") for each in found)
    return f"{newest}<br>{others[-1]}" if others else newest


def turns_of(view: View, places: Sequence[Place]) -> dict[str, list[TurningPoint]]:
    """Return where verdicts change, by the newer stack."""
    found: dict[str, list[TurningPoint]] = defaultdict(list)
    for place in places:
        for point in turning_points(view.along(place)):
            if point.before.passed != point.after.passed:
                found[point.after.stack].append(point)
    return found


def heat_cell(
    view: View,
    scenario: str,
    column: Column,
    seen: Sequence[bool | None],
    turns: Mapping[str, Sequence[TurningPoint]],
) -> str:
    """Return a ``td`` with how many variants train, and how many verdicts changed there."""
    judged = [passed for passed in seen if passed is not None]
    if not judged:
        return '<td class="x"><span title="not judged">–</span></td>'
    good = sum(judged)
    points = [point for lock in column.locks for point in turns.get(lock.stack, ())]
    _, symbol = counted_as(good, len(judged))
    said = f"{scenario} on {column.name}: {good} of {len(judged)} train."
    if points:
        said += f" Changed here: {told(view, points)}."
    target = links.evidence_of(column.name, scenario)
    kind = warmth(good / len(judged))
    return (
        f'<td class="{kind}{" turn" if points else ""}">'
        f'<a href="{target}" title="{safe(said)}">{symbol} {good}/{len(judged)}'
        f"{marks(points)}</a></td>"
    )


def warmth(share: float) -> str:
    """Return the class of a cell by the share of its variants that train."""
    if share in {0, 1}:
        return "p" if share else "f"
    return "h1" if share < FEW else "h2" if share < ENOUGH else "h3"


def marks(points: Sequence[TurningPoint]) -> str:
    """Return how many verdicts changed between this column and the next one, as a mark."""
    count = Counter(change_of(point.before, point.after) for point in points)
    signs = "".join(
        f'<b class="{kind}">{sign}{count[word]}</b>'
        for word, (kind, sign) in SIGNS.items()
        if count[word]
    )
    return f"<small>{signs}</small>" if signs else ""


def told(view: View, points: Sequence[TurningPoint]) -> str:
    """Return how many verdicts changed, and which releases did it, in words."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for point in points:
        found[view.releases_behind(point) or NOT_KNOWN][change_of(point.before, point.after)] += 1
    return "; ".join(
        f"{listed(f'{count[word]} {word}' for word in SIGNS if count[word])} ({release})"
        for release, count in sorted(found.items(), key=lambda each: each[0] == NOT_KNOWN)
    )
