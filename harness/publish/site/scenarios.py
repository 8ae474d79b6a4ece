"""A page per scenario: its story, its variants across the stacks, where they turn, and its source."""

from __future__ import annotations

import ast
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from harness.outcome import TRAINS
from harness.publish.site import plots
from harness.publish.site.cells import KINDS, NOT_RUN, shown
from harness.publish.site.markup import page, ready
from harness.publish.site.moves import turning_points
from harness.publish.site.plots import Axis, Spread
from harness.publish.site.sentences import ROLES
from harness.publish.site.tables import section_table
from harness.publish.site.view import WINDOW, Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup

    from harness.flips import Moved
    from harness.model import Scenario
    from harness.publish.rows import Row
    from harness.publish.site.moves import TurningPoint
    from harness.publish.site.view import Line, View

ROOT = "../"
MEBI = 2**20
MOST_TURNS = 40
"""Turning points of a variant that its page lists, the newest ones."""


class Course(NamedTuple):
    """A variant along the stacks."""

    line: Line
    summary: str
    strip: Markup
    passing: str
    turns: list[Turn]
    untold: int
    """Turning points that are left out."""
    measured: list[tuple[str, Markup, str]]
    """Name, plot and words of throughput and memory, where something was measured."""


class Turn(NamedTuple):
    """A turning point and what moved between its stacks."""

    point: TurningPoint
    before: str
    after: str
    moved: Sequence[Moved]


def scenario_pages(view: View, source_of: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """The page of each scenario."""
    for scenario in view.table.scenarios.values():
        yield scenario_page(view, scenario, source_of.get(scenario.name, ""))


def scenario_page(view: View, scenario: Scenario, source: str) -> tuple[str, bytes]:
    """The page of a scenario."""
    locks = view.newest_first[:WINDOW]
    own = [
        Section(section.device, section.misuse, tuple(line for line in section.lines if line.scenario == scenario.name))
        for section in view.sections
    ]
    summaries = {variant.name: variant.summary for variant in scenario.variants}
    return page(
        "scenario.html",
        f"scenarios/{scenario.name}.html",
        scenario=scenario,
        roles=ROLES,
        story=story(source),
        source=source,
        tables=[section_table(view, section, locks, ROOT) for section in own if section.lines],
        more=len(view.table.locks) - len(locks),
        absent=view.absent,
        courses=[course(view, line, summaries.get(line.variant, "")) for line in view.lines_of(scenario.name)],
        several=len(view.devices) > 1,
        builds=view.builds,
        first=view.table.locks[0] if view.table.locks else None,
        last=view.table.locks[-1] if view.table.locks else None,
    )


def story(source: str) -> str:
    """The docstring of a script without its first line, which is its title."""
    try:
        docstring = ast.get_docstring(ast.parse(source)) or ""
    except (SyntaxError, ValueError):
        return ""
    return docstring.partition("\n")[2]


def course(view: View, line: Line, summary: str) -> Course:
    """A variant along the stacks: outcomes, turning points, and the throughput and memory of what trains."""
    along = view.along(line.place)
    points = list(turning_points(along))
    turns = [turn(view, point) for point in points[-MOST_TURNS:]]
    names = view.table.stacks
    axis = Axis(names, [view.builds.get(name) for name in names])
    drawn, passing = strip(line, along, axis)
    trained = [row if row is not None and row.passed and row.outcome == TRAINS else None for row in along]
    speeds = [row.steps_per_s if row is not None else None for row in trained]
    memory = [row.peak_memory_bytes if row is not None else None for row in trained]
    of_speed = [Spread(each.median, each.low, each.high) if each is not None else None for each in speeds]
    of_memory = [Spread(each / MEBI, each / MEBI, each / MEBI) if each is not None else None for each in memory]
    measured = (("Throughput", of_speed, "steps/s"), ("Peak memory", of_memory, "MiB"))
    return Course(
        line=line,
        summary=summary,
        strip=drawn,
        passing=passing,
        turns=turns,
        untold=len(points) - len(turns),
        measured=[
            (name, *plotted(f"{name} of {line.variant}", unit, along, values, axis))
            for name, values, unit in measured
            if any(values)
        ],
    )


def plotted(
    label: str, unit: str, along: Sequence[Row | None], values: Sequence[Spread | None], axis: Axis
) -> tuple[Markup, str]:
    """A plot of what was measured on each stack, and the same in words."""
    failed = [place for place, row in enumerate(along) if row is not None and row.passed is False]
    told = in_words(values, axis, unit)
    titles = [
        f"{where}: {amount(value, unit) if value is not None else outcome_of(row)}"
        for where, value, row in zip(axis.titles, values, along, strict=False)
    ]
    return ready(plots.along(values, failed, (f"{label}: {told}", unit), axis, titles)), told


def amount(value: Spread, unit: str) -> str:
    """A value with its quartiles."""
    quartiles = f" (quartiles {value.low:,.4g} to {value.high:,.4g})" if value.low != value.high else ""
    return f"{value.median:,.4g} {unit}{quartiles}"


def outcome_of(row: Row | None) -> str:
    """What a cell says."""
    return shown(row).word if row is not None else NOT_RUN.word


def in_words(values: Sequence[Spread | None], axis: Axis, unit: str) -> str:
    """The newest value, and the range of all that compare with it: those of the same build of torch."""
    *_, (newest, place) = [(value, place) for place, value in enumerate(values) if value is not None]
    build = axis.builds[place]
    alike = [v.median for v, other in zip(values, axis.builds, strict=True) if v is not None and other == build]
    with_it = f" with the same build of torch ({build})" if build else ""
    span = f"; {min(alike):,.4g} to {max(alike):,.4g} on {len(alike)} stacks{with_it}" if len(alike) > 1 else ""
    return f"{amount(newest, unit)} on {axis.names[place]}{span}"


def strip(line: Line, along: Sequence[Row | None], axis: Axis) -> tuple[Markup, str]:
    """The outcomes along the stacks as stretches, and how many pass."""
    kinds = [KINDS[row.passed] if row is not None else NOT_RUN.kind for row in along]
    runs = [(kind, len(list(each))) for kind, each in groupby(kinds)]
    judged = [kind for kind in kinds if kind in "pf"]
    passing = f"passes on {judged.count('p')} of {len(judged)} stacks" if judged else "never judged"
    titles = [f"{where}: {outcome_of(row)}" for where, row in zip(axis.titles, along, strict=False)]
    label = f"Outcomes of {line.variant}, the oldest stack first: {passing}"
    return ready(plots.strip(runs, label, axis, titles)), passing


def turn(view: View, point: TurningPoint) -> Turn:
    """A turning point in words."""
    before, after = (shown(row).word for row in (point.before, point.after))
    return Turn(point, before, after, view.moves.between(point.before.stack, point.after.stack))
