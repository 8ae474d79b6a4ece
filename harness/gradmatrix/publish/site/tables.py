"""The matrix as HTML tables: rows are variants, columns are stacks, the newest first.

``View`` is what all pages look at: every cell by its place, and the sections in which cells are
shown.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.model import SHOWN, Role
from gradmatrix.core.text import listed
from gradmatrix.judge.versions import moves, versions_of
from gradmatrix.publish.rows import cell_text, lacks_device
from gradmatrix.publish.site import links
from gradmatrix.publish.site.markup import GLOSSARY, kind_of_failure, ready, safe
from gradmatrix.publish.speed import usual_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from markupsafe import Markup

    from gradmatrix.core.model import Lock
    from gradmatrix.judge.edge import Edge, Turning
    from gradmatrix.judge.versions import PackageMove, Versions
    from gradmatrix.publish.rows import Row, Table


WINDOW = 24
"""The most stacks that one page shows side by side."""
MOST_CELLS, LEAST_STACKS = 2000, 6
"""A browser needs too long for a page with more cells. Then the page shows fewer stacks."""
Place = tuple[str, str, str]
"""Scenario, variant, device."""


@dataclass(frozen=True)
class Line:
    """A row of the shown matrix: a variant on a device."""

    scenario: str
    variant: str
    role: Role
    device: str

    @cached_property
    def place(self) -> Place:
        """The place of its cells."""
        return self.scenario, self.variant, self.device


OF_LINE = attrgetter("scenario", "variant", "role", "device")


@dataclass(frozen=True)
class Section:
    """Rows under one question.

    Misuse has a section of its own, so that it never reads as a stack that cannot train.
    """

    device: str
    misuse: bool
    lines: tuple[Line, ...]

    @property
    def question(self) -> str:
        """The question that its cells answer."""
        return "Does the stack tell you?" if self.misuse else "Does it train?"

    @property
    def anchor(self) -> str:
        """Its id in an address."""
        return f"{'misuse' if self.misuse else 'trains'}-{self.device}"


@dataclass(frozen=True)
class View:
    """The matrix, with its cells by stack and place."""

    table: Table

    @cached_property
    def cells(self) -> dict[str, dict[Place, Row]]:
        """Every cell, by the name of its stack and by its place."""
        found: dict[str, dict[Place, Row]] = defaultdict(dict)
        for row in self.table.rows:
            found[row.stack][row.scenario, row.variant, row.device] = row
        return found

    @cached_property
    def by_place(self) -> dict[Place, list[Row]]:
        """The cells of each variant, the oldest stack first."""
        found: dict[Place, list[Row]] = defaultdict(list)
        for row in self.table.rows:
            found[row.scenario, row.variant, row.device].append(row)
        return found

    @cached_property
    def newest_first(self) -> tuple[Lock, ...]:
        """The stacks, in the order of the columns."""
        return self.table.locks[::-1]

    @cached_property
    def versions(self) -> dict[str, dict[str, str]]:
        """The release of every package by stack."""
        return {
            lock.stack: {each.name: each.version for each in lock.packages}
            for lock in self.table.locks
        }

    @cached_property
    def releases(self) -> dict[str, Versions]:
        """The releases of the main packages by stack, as versions that sort."""
        return {lock.stack: versions_of(lock) for lock in self.table.locks}

    @cached_property
    def builds(self) -> Mapping[str, str]:
        """The build of torch of each stack that ran; empty if all have the same."""
        builds = self.table.builds
        return builds if len(set(builds.values())) > 1 else {}

    @cached_property
    def before(self) -> dict[str, str]:
        """The previous stack of each stack, by date."""
        names = [lock.stack for lock in self.table.dated]
        return dict(zip(names[1:], names, strict=False))

    @cached_property
    def moves(self) -> Moves:
        """The packages that differ between any two stacks."""
        return Moves(self.versions)

    @cached_property
    def usual_s(self) -> dict[str, float]:
        """How long the reference usually takes on each kind of machine."""
        return usual_s(each.speed for each in self.table.runs.values())

    @cached_property
    def absent(self) -> dict[str, str]:
        """The devices on which no cell was judged, with the reason."""
        by_device: dict[str, list[Row]] = defaultdict(list)
        for row in self.table.rows:
            by_device[row.device].append(row)
        return {device: rows[0].message for device, rows in by_device.items() if lacks_device(rows)}

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The sections, for each device on which something was judged."""
        lines: dict[tuple[str, bool], dict[Line, None]] = defaultdict(dict)
        for each, _ in groupby(self.table.rows, key=OF_LINE):  # those of a line are neighbours
            line = Line(*each)
            if line.device not in self.absent:
                lines[line.device, line.role is Role.MISUSE][line] = None
        return tuple(
            Section(device, misuse, tuple(each)) for (device, misuse), each in sorted(lines.items())
        )

    @property
    def devices(self) -> list[str]:
        """The devices on which something was judged."""
        return list(dict.fromkeys(section.device for section in self.sections))

    @cached_property
    def turnings(self) -> dict[tuple[str, tuple[str, str]], Turning]:
        """Which release is behind a change, by ``SCENARIO/VARIANT/DEVICE`` and the two stacks."""
        return {(each.cell, each.stacks): each for each in self.table.turnings}

    def turning(self, point: TurningPoint) -> Turning | None:
        """Return which release is behind a change; None if that is not known."""
        cell = f"{point.after.scenario}/{point.after.variant}/{point.after.device}"
        return self.turnings.get((cell, (point.before.stack, point.after.stack)))

    def releases_behind(self, point: TurningPoint) -> str:
        """Return the names of the releases behind a change; empty if they are not known."""
        found = self.turning(point)
        return listed(map(release_of, found.edges)) if found is not None else ""

    def row(self, stack: str, place: Place) -> Row | None:
        """Return a cell; None if it was not run."""
        return self.cells.get(stack, {}).get(place)

    def along(self, place: Place) -> list[Row | None]:
        """Return the cells of a variant on the stacks in order of time, the oldest first."""
        return [self.row(lock.stack, place) for lock in self.table.dated]

    def lines_of(self, scenario: str) -> Iterator[Line]:
        """Yield the rows of a scenario."""
        return (
            line for section in self.sections for line in section.lines if line.scenario == scenario
        )

    def windows(self) -> list[tuple[Lock, ...]]:
        """Return the stacks in groups that fit on a page, the newest first."""
        locks = self.table.dated[::-1]
        lines = sum(len(section.lines) for section in self.sections)
        wide = max(LEAST_STACKS, min(WINDOW, MOST_CELLS // max(1, lines)))
        return [locks[start : start + wide] for start in range(0, len(locks), wide)] or [()]


@dataclass(frozen=True)
class TurningPoint:
    """Two consecutive stacks on which a variant has different outcomes."""

    before: Row
    after: Row


@dataclass(frozen=True)
class Moves:
    """The packages that differ between any two stacks, the main packages first."""

    versions: Mapping[str, Mapping[str, str]]
    """The release of every package by stack."""
    _known: dict[tuple[str, str], tuple[PackageMove, ...]] = field(default_factory=dict)

    def between(self, older: str, newer: str) -> tuple[PackageMove, ...]:
        """Return the packages that differ between two stacks."""
        if (older, newer) not in self._known:
            self._known[older, newer] = moves(self.versions[older], self.versions[newer])
        return self._known[older, newer]


def turning_points(along: Iterable[Row | None]) -> Iterator[TurningPoint]:
    """Yield the consecutive judged stacks between which the outcome of a variant changes."""
    before: Row | None = None
    for row in along:
        if row is None or row.passed is None:
            continue
        if before is not None and differ(before, row):
            yield TurningPoint(before, row)
        before = row


def differ(one: Row, other: Row) -> bool:
    """Whether two cells of a variant have different outcomes."""
    return (one.outcome, one.passed) != (other.outcome, other.passed)


def release_of(edge: Edge) -> str:
    """Return the release that changed something, with what may be the cause instead."""
    if edge.several:
        return edge.package.replace(" + ", " or ")
    return f"{edge.package} {edge.newer}{edge.doubt}"


def change_of(before: Row, after: Row) -> str:
    """Return what changed, in a word of maintainers.

    A misuse cannot train, so no release fixes or breaks it.
    """
    if before.passed == after.passed:
        return "changed otherwise"
    if after.role is Role.MISUSE:
        return "now reported" if after.passed else "now silent"
    return "fixed" if after.passed else "broken"


KINDS = {True: "p", False: "f", None: "n"}
"""The class of a table cell, which sets its colour: passes, fails, not judged."""


class Shown(NamedTuple):
    """What a cell shows. ``word`` says everything that the colour of ``kind`` says."""

    kind: str
    word: str
    """A symbol and a word."""
    note: str
    """Steps per second, or another fact."""


NOT_RUN = Shown("x", "not run", "")


def shown(row: Row) -> Shown:
    """Return a cell in two short lines."""
    found = cell_text(row)
    return Shown(KINDS[row.passed], found.word, found.note)


def outcome_of(row: Row | None) -> str:
    """Return the outcome of a cell in one word."""
    return shown(row).word if row is not None else NOT_RUN.word


def in_cell(row: Row) -> Shown:
    """Return what a table shows of a cell: a plain word, and the outcome or the speed below."""
    said = shown(row)
    if row.passed is None:
        return Shown(said.kind, "– not judged", row.outcome)
    if row.passed or said.note == row.outcome:  # it trains, or it is a misuse
        return said
    return Shown(said.kind, f"✗ {kind_of_failure(row.outcome)}", row.outcome)


def table_cell(row: Row | None, root: str) -> str:
    """Return a ``td`` with a link to the evidence."""
    if row is None:
        return '<td class="x">not run</td>'
    kind, word, note = in_cell(row)
    below = f"<small>{broken(note)}</small>" if note else ""
    title = f' title="{TITLES[word]}"' if word in TITLES and not row.passed else ""
    address = f'href="{root}{links.evidence(row)}"{title}'
    return f'<td class="{kind}"><a {address}>{safe(word)}{below}</a></td>'


TITLES = {f"{each.symbol} {word}": each.meaning for word, each in GLOSSARY.items()}
"""What the words of cells mean."""


def broken(word: str) -> str:
    """Return an outcome that may be broken after its phase."""
    return safe(word).replace(":", ":<wbr>")


BUILD_OF_TORCH = "build of torch"


def section_table(view: View, section: Section, locks: Sequence[Lock], root: str) -> Markup:
    """Return the rows of a section on some stacks, in a region that scrolls."""
    title = f"{section.question} ({section.device})"
    body = []
    for scenario, lines in groupby(section.lines, key=lambda line: line.scenario):
        body.append(f"<tbody>{scenario_head(scenario, len(locks), root)}")
        body += (table_line(view, line, locks, root) for line in lines)
        body.append("</tbody>")
    return region(title, head(view, locks, root) + "\n".join(body), section.anchor)


def region(title: str, rows: str, anchor: str, kind: str = "matrix") -> Markup:
    """Return a table in a region that scrolls, also with the keyboard."""
    name = f"{safe(anchor)}-caption"
    return ready(
        f'<div class="region {kind}" role="region" tabindex="0" aria-labelledby="{name}">'
        f'<table><caption id="{name}">{safe(title)}</caption>\n{rows}</table></div>'
    )


def head(view: View, locks: Sequence[Lock], root: str) -> str:
    """Return the head: stacks with dates and versions. Changed versions are bold.

    The build of torch has a line only if the stacks differ in it.
    """
    names = "".join(
        f'<th scope="col">{link(root + links.stack(lock.stack), lock.stack)}</th>' for lock in locks
    )
    dates = "".join(f"<td>{lock.as_of}</td>" for lock in locks)
    rows = [f'<tr class="stacks"><th scope="col">stack</th>{names}</tr>', line_of("as of", dates)]
    for name in SHOWN:
        versions = "".join(f"<td>{version(view, lock, name)}</td>" for lock in locks)
        rows.append(line_of(f'<a href="{root}{links.package(name)}">{name}</a>', versions))
    if view.builds:
        rows.append(
            line_of(BUILD_OF_TORCH, "".join(f"<td>{build(view, lock)}</td>" for lock in locks))
        )
    return head_of(rows)


def head_of(rows: Iterable[str]) -> str:
    """Return the head of a table, a row on each line: a new date then changes one line only."""
    return "<thead>" + "\n".join(rows) + "</thead>\n"


def line_of(title: str, cells: str) -> str:
    """Return a line of the head."""
    return f'<tr class="version"><th scope="row">{title}</th>{cells}</tr>'


def version(view: View, lock: Lock, name: str) -> str:
    """Return the release of a package, in bold if the previous stack has a different one."""
    before = view.before.get(lock.stack)
    mine = view.versions[lock.stack].get(name)
    return beside(mine, view.versions[before].get(name) if before is not None else mine)


def build(view: View, lock: Lock) -> str:
    """Return the build of torch, in bold if the previous stack has a different one."""
    before = view.before.get(lock.stack)
    mine = view.builds.get(lock.stack)
    return beside(mine, view.builds.get(before) if before is not None else mine)


def beside(mine: str | None, other: str | None) -> str:
    """Return ``mine``, in bold if it differs from ``other``."""
    if mine is None:
        return "–"
    return f"<b>{safe(mine)}</b>" if mine != other else safe(mine)


def breakable(name: str) -> str:
    """Return a name that may be broken after a hyphen or an underscore."""
    return safe(name).replace("-", "-<wbr>").replace("_", "_<wbr>")


def link(target: str, name: str) -> str:
    """Return a name as a link."""
    return f'<a href="{target}">{breakable(name)}</a>'


def scenario_head(name: str, columns: int, root: str) -> str:
    """Return the line above the variants of a scenario."""
    return (
        f'<tr class="scenario"><th scope="rowgroup">{link(root + links.scenario(name), name)}</th>'
        f'<td colspan="{columns or 1}"></td></tr>'
    )


def table_line(view: View, line: Line, locks: Sequence[Lock], root: str) -> str:
    """Return the line of a variant."""
    cells = "".join(table_cell(view.row(lock.stack, line.place), root) for lock in locks)
    name = link(root + links.variant(line.scenario, line.variant), line.variant)
    return f'<tr><th scope="row">{name}<small>{line.role.value}</small></th>{cells}</tr>'


def counted_as(good: int, judged: int) -> tuple[str, str]:
    """Return the class and the symbol of a count: all, none, or some."""
    return ("p", "✓") if good == judged else ("f", "✗") if not good else ("h", "◐")
