"""Speed and memory of each variant along the stacks: a small plot of each, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.model import SHOWN
from gradmatrix.core.outcomes import TRAINS
from gradmatrix.core.text import counted
from gradmatrix.publish import speed
from gradmatrix.publish.site import plots
from gradmatrix.publish.site.markup import ready
from gradmatrix.publish.site.plots import Axis, Marks, Point
from gradmatrix.publish.site.tables import outcome_of
from gradmatrix.publish.speed import Band

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markupsafe import Markup

    from gradmatrix.publish.rows import Row
    from gradmatrix.publish.site.tables import Line, View

MEBI = 2**20
SPEED, RATE = "Speed", "steps/s"
WIDE = 260
MEMORY = Band(0.975, 1.0, 1.025)
"""The band of peak memory: so two values are apart if they differ by 5 %, as in ``upgrade``."""
MOST_TOLD = 3
"""The most measured values that are told, the newest ones."""
MOST_CHANGES = 6
"""The most changes of a value that are told, the newest ones."""


class Change(NamedTuple):
    """A change of a value, and the main packages that differ between its stacks."""

    name: str
    """What changed."""
    before: str
    after: str
    ratio: str
    moved: str


class Curve(NamedTuple):
    """A plot, what it shows in words, and its changes."""

    name: str
    plot: Markup
    newest: str
    changes: Sequence[Change]
    is_joined: bool
    """Whether a line joins two stacks; without one, nothing can be compared."""


class Panel(NamedTuple):
    """A variant with its curves."""

    line: Line
    curves: Sequence[Curve]

    @property
    def changes(self) -> list[Change]:
        """Every change, of speed and of memory."""
        return [each for curve in self.curves for each in curve.changes]


def panels(view: View, scenario: str) -> list[Panel]:
    """Return the variants of a scenario of which something was measured."""
    lines = list(view.lines_of(scenario))
    ran = [
        lock.stack
        for lock in view.table.dated
        if any(view.row(lock.stack, line.place) for line in lines)
    ]
    found = (
        Panel(line, list(curves(view, [(name, view.row(name, line.place)) for name in ran])))
        for line in lines
    )
    return [each for each in found if each.curves]


def curves(view: View, along: Sequence[tuple[str, Row | None]]) -> Iterator[Curve]:
    """Yield speed and memory of a variant on stacks by date, if some stack has them."""
    trained = [
        row if row is not None and row.passed and row.outcome == TRAINS else None
        for _, row in along
    ]
    rates = [speed_of(view, row) for row in trained]
    sizes = [memory_of(view, row) for row in trained]
    own = [memory_of(view, row, own=True) for row in trained]
    for named, points, changed in (
        ((SPEED, RATE), rates, {*changes_of(rates)}),
        (("Peak memory", "MiB"), sizes, {*changes_of(sizes)} & {*changes_of(own)}),
    ):
        if any(each.band or each.raw for each in points):
            yield curve(view, named, points, along, [each[:2] for each in sorted(changed)])


def speed_of(view: View, row: Row | None) -> Point:
    """Return the speed of a cell, corrected if a reference ran beside it."""
    if row is None or row.steps_per_s is None:
        return Point()
    runs = view.table.runs.get(row.cell)
    if runs is None or runs.speed is None:
        return Point(raw=(row.steps_per_s.median,) if runs is None else runs.steps_per_s)
    kind = f"{runs.speed.machine} {view.table.builds.get(row.stack, '')}"
    return Point(speed.corrected(runs.speed, view.usual_s), kind, runs.steps_per_s)


def memory_of(view: View, row: Row | None, *, own: bool = False) -> Point:
    """Return the peak memory of a cell: it does not depend on the speed of the machine.

    Args:
        view: all rows.
        row: the cell.
        own: without what the process took before the cell began. That depends on the scenarios
            which ran beside this one, as their libraries were imported too.
    """
    if row is None or row.peak_memory_bytes is None:
        return Point()
    size = row.peak_memory_bytes / MEBI
    runs = view.table.runs.get(row.cell)
    if own and runs is not None:
        size = max(0.0, size - (runs.start_memory_bytes or 0) / MEBI)
    kind = f"memory {view.table.builds.get(row.stack, '')}"
    return Point(MEMORY.times(Band(size, size, size)), kind)


def curve(
    view: View,
    named: tuple[str, str],
    points: Sequence[Point],
    along: Sequence[tuple[str, Row | None]],
    changed: Sequence[tuple[int, int]],
) -> Curve:
    """Return a plot of ``points``, and a description of it."""
    name, unit = named
    names = [each for each, _ in along]
    failed = [place for place, (_, row) in enumerate(along) if row is not None and not row.passed]
    newest, span = newest_and_range(points, names, unit)
    axis = Axis(names, [view.builds.get(each) for each in names], WIDE)
    titles = [  # the axis has none if there are too many stacks
        f"{stack}: {amount(point, unit) or outcome_of(row)}"
        for _, (stack, row), point in zip(axis.titles, along, points, strict=False)
    ]
    marks = Marks(failed, changed)
    return Curve(
        name,
        ready(plots.along(points, marks, (f"{name} {newest}{span}", unit), axis, titles)),
        newest,
        [change(view, name, points, names, places) for places in changed[-MOST_CHANGES:]],
        any(len(run) > 1 for run in plots.joined(points)),
    )


def changes_of(points: Sequence[Point]) -> Iterator[tuple[int, int, bool]]:
    """Yield the places between which a comparable value changed, and whether it became larger."""
    for kind in dict.fromkeys(each.kind for each in points if each.band):
        alike = [(place, each.band) for place, each in enumerate(points) if each.kind == kind]
        bands = [band for _, band in alike if band is not None]
        for before, after in speed.changes(bands):
            rises = bands[before].median < bands[after].median
            yield alike[before][0], alike[after][0], rises


def change(
    view: View, name: str, points: Sequence[Point], names: Sequence[str], places: tuple[int, int]
) -> Change:
    """Return a change in words."""
    before, after = (names[place] for place in places)
    old, new = (points[place].band for place in places)
    assert old is not None
    assert new is not None
    moved = view.moves.between(before, after)
    main = [str(each) for each in moved if each.name in SHOWN]
    others = [counted(len(moved) - len(main), "other package")] if len(moved) > len(main) else []
    return Change(
        name, before, after, f"×{new.median / old.median:.2f}", ", ".join((*main, *others))
    )


def amount(point: Point, unit: str) -> str:
    """Format what a stack shows; empty if it shows nothing."""
    raw = ", ".join(f"{each:,.4g}" for each in point.raw)
    if point.band is None:
        return raw and f"{raw} {unit} as measured, without a reference"
    low, median, high = (f"{each:,.4g}" for each in point.band)
    return f"{median} {unit} ({low} to {high}, measured {raw})" if raw else f"{median} {unit}"


def newest_and_range(points: Sequence[Point], names: Sequence[str], unit: str) -> tuple[str, str]:
    """Return the newest value, and the range of all values that can be compared with it."""
    told = [(name, each) for name, each in zip(names, points, strict=True) if each.band or each.raw]
    name, newest = told[-1]
    alike = [each.band.median for each in points if each.band and each.kind == newest.kind]
    span = (
        f"; {min(alike):,.4g} to {max(alike):,.4g} on {len(alike)} stacks"
        if newest.band and len(alike) > 1
        else ""
    )
    return f"on {name}: {amount(newest, unit)}", span
