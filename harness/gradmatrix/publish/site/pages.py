"""The first page, the pages of older stacks, and the pages of each stack, scenario and package.

On the pages of packages, neighbouring releases are compared on real stacks. These usually differ in
more than one package, so the other changed packages are always listed.
"""

from __future__ import annotations

import ast
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.model import SHOWN, Cell, Role
from gradmatrix.core.outcomes import TRAINS
from gradmatrix.judge.versions import names_of
from gradmatrix.publish.site import curves, links, plots
from gradmatrix.publish.site.markup import ROLES, coded, in_words, page, ready, safe
from gradmatrix.publish.site.plots import Axis
from gradmatrix.publish.site.releases import (
    MOST_STACKS,
    Tale,
    by_release,
    grid,
    nearest,
    needs,
    newest_pair,
    ran_with,
    ranked,
)
from gradmatrix.publish.site.tables import (
    KINDS,
    NOT_RUN,
    WINDOW,
    Section,
    TurningPoint,
    broken,
    differ,
    in_cell,
    outcome_of,
    section_table,
    shown,
    turning_points,
)
from gradmatrix.stacks.lock import fallen_behind

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from markupsafe import Markup

    from gradmatrix.core.model import Lock, LockedPackage, Scenario
    from gradmatrix.judge.versions import PackageMove
    from gradmatrix.publish.rows import Row
    from gradmatrix.publish.site.tables import Line, Place, View

ROOT = "../"
MEBI = 2**20
MOST_TURNS = 40
"""The most changes of a variant that its page lists, the newest ones."""
RATE = "steps/s"


def stack_pages(view: View) -> Iterator[tuple[str, bytes]]:
    """Yield the page of each stack."""
    locks = view.table.dated
    for place, lock in enumerate(locks):
        older = locks[place - 1] if place else None
        newer = locks[place + 1] if place + 1 < len(locks) else None
        yield stack_page(view, lock, older, newer)
    for lock in view.table.locks:
        if lock.stack in view.table.combined:
            yield stack_page(view, lock, None, None)


def stack_path(lock: Lock) -> str:
    """Return the path of the page of a stack."""
    return f"stacks/{lock.stack}.html"


def stack_page(view: View, lock: Lock, older: Lock | None, newer: Lock | None) -> tuple[str, bytes]:
    """Return the page of a stack. ``older`` and ``newer`` are its neighbours by date."""
    return page(
        "stack.html",
        stack_path(lock),
        lock=lock,
        older=older,
        newer=newer,
        shown=[(name, view.versions[lock.stack].get(name)) for name in SHOWN],
        stale=fallen_behind(lock, SHOWN),
        moved=view.moves.between(older.stack, lock.stack) if older is not None else (),
        sections=[(section, section_rows(view, section, lock.stack)) for section in view.sections],
        absent=view.absent,
        packages=ready("\n".join(map(package_line, lock.packages))),
        ran=lock.stack in view.cells,
        build=view.table.builds.get(lock.stack),
        measured=view.table.measured.get(lock.stack),
        unlike=bool(view.builds),
        tally=tally(list(view.cells.get(lock.stack, {}).values())),
    )


def tally(rows: Sequence[Row]) -> str:
    """Return how many of the cells pass, in words."""
    judged = [row for row in rows if row.passed is not None]
    return (
        f"{sum(row.passed is True for row in judged)} of {len(judged)} judged cells pass"
        if judged
        else "Not judged"
    )


def section_rows(view: View, section: Section, stack: str) -> Markup:
    """Return a line for each cell of a stack."""
    body = []
    for scenario, lines in groupby(section.lines, key=lambda line: line.scenario):
        body.append(
            f'<tbody><tr class="scenario"><th scope="rowgroup" colspan="5">'
            f'<a href="{ROOT}{links.scenario(scenario)}">{safe(scenario)}</a></th></tr>'
        )
        body += (cell_line(view.row(stack, line.place), line.variant) for line in lines)
        body.append("</tbody>")
    return ready("\n".join(body))


def cell_line(row: Row | None, variant: str) -> str:
    """Return the line of a cell with its reason."""
    if row is None:
        name = f'<th scope="row">{safe(variant)}</th>'
        return f'<tr>{name}<td class="x">not run</td><td></td><td></td><td></td></tr>'
    kind, word, note = in_cell(row)
    memory = f"{row.peak_memory_bytes / MEBI:,.0f} MiB" if row.peak_memory_bytes is not None else ""
    why = (
        row.diagnosis.text[0]
        if row.diagnosis is not None
        else row.message or ("" if row.passed else in_words(row.outcome))
    )
    return (
        f'<tr><th scope="row">{safe(variant)}<small>{row.role.value}</small></th>'
        f'<td class="{kind}"><a href="{ROOT}{links.evidence(row)}">{safe(word)}</a></td>'
        f"<td>{broken(note)}</td><td>{memory}</td><td>{coded(why)}</td></tr>"
    )


def package_line(package: LockedPackage) -> str:
    """Return a locked package beside the newest release of that day."""
    days = package.behind_days
    cells = (
        safe(package.version),
        package.released or "–",
        safe(package.newest or "–"),
        f"{days} days" if days else "",
    )
    columns = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{safe(package.name)}</th>{columns}</tr>'


class Course(NamedTuple):
    """The outcomes of a variant on all stacks."""

    line: Line
    summary: str
    strip: Markup
    passing: str
    turns: list[Turn]
    left_out: int
    """How many changes are left out."""


class Turn(NamedTuple):
    """A change of the outcome, and the packages that differ between its stacks."""

    point: TurningPoint
    before: str
    after: str
    moved: Sequence[PackageMove]
    exact: str
    """The releases behind it; empty if they are not known."""


def scenario_pages(view: View, source_of: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """Yield the page of each scenario."""
    for scenario in view.table.scenarios.values():
        yield scenario_page(view, scenario, source_of.get(scenario.name, ""))


def scenario_page(view: View, scenario: Scenario, source: str) -> tuple[str, bytes]:
    """Return the page of a scenario."""
    locks = view.table.dated[::-1][:WINDOW]
    own = [
        Section(
            section.device,
            section.misuse,
            tuple(line for line in section.lines if line.scenario == scenario.name),
        )
        for section in view.sections
    ]
    summaries = {variant.name: variant.summary for variant in scenario.variants}
    panels = curves.panels(view, scenario.name)
    speeds = [each for panel in panels for each in panel.curves if each.name == curves.SPEED]
    return page(
        "scenario.html",
        f"scenarios/{scenario.name}.html",
        scenario=scenario,
        roles=ROLES,
        story=story(source),
        source=source,
        tables=[section_table(view, section, locks, ROOT) for section in own if section.lines],
        more=len(view.table.dated) - len(locks),
        absent=view.absent,
        courses=[
            course(view, line, summaries.get(line.variant, ""))
            for line in view.lines_of(scenario.name)
        ],
        panels=panels,
        unjoined=bool(speeds) and not any(each.is_joined for each in speeds),
        newest=newest_two(view, scenario.name),
        several=len(view.devices) > 1,
        builds=view.builds,
        first=next(iter(view.table.dated), None),
        last=next(iter(locks), None),
    )


def newest_two(view: View, scenario: str) -> list[Lock]:
    """Return the two newest stacks of releases on which a scenario was judged, the older first."""
    places = [line.place for line in view.lines_of(scenario)]
    judged = (
        lock
        for lock in view.table.dated[::-1]
        if not lock.prereleases
        if any(
            row.passed is not None for row in map(view.cells.get(lock.stack, {}).get, places) if row
        )
    )
    return list(islice(judged, 2))[::-1]


def story(source: str) -> str:
    """Return the docstring of a script without its first line, which is its title."""
    try:
        docstring = ast.get_docstring(ast.parse(source)) or ""
    except (SyntaxError, ValueError):
        return ""
    return docstring.partition("\n")[2]


def course(view: View, line: Line, summary: str) -> Course:
    """Return the outcomes of a variant on all stacks, and their changes."""
    along = view.along(line.place)
    points = list(turning_points(along))
    turns = [turn(view, point) for point in points[-MOST_TURNS:]]
    names = [lock.stack for lock in view.table.dated]
    axis = Axis(names, [view.builds.get(name) for name in names])
    drawn, passing = strip(line, along, axis)
    return Course(
        line=line,
        summary=summary,
        strip=drawn,
        passing=passing,
        turns=turns,
        left_out=len(points) - len(turns),
    )


def strip(line: Line, along: Sequence[Row | None], axis: Axis) -> tuple[Markup, str]:
    """Return a strip with the outcomes on all stacks, and how many pass."""
    kinds = [KINDS[row.passed] if row is not None else NOT_RUN.kind for row in along]
    runs = [(kind, len(list(each))) for kind, each in groupby(kinds)]
    judged = [kind for kind in kinds if kind in "pf"]
    passing = f"passes on {judged.count('p')} of {len(judged)} stacks" if judged else "never judged"
    titles = [f"{where}: {outcome_of(row)}" for where, row in zip(axis.titles, along, strict=False)]
    label = f"Outcomes of {line.variant}, the oldest stack first: {passing}"
    return ready(plots.strip(runs, label, axis, titles)), passing


def turn(view: View, point: TurningPoint) -> Turn:
    """Return a change of the outcome in words."""
    before, after = (shown(row).word for row in (point.before, point.after))
    exact = view.turning(point)
    moved = view.moves.between(point.before.stack, point.after.stack)
    return Turn(point, before, after, moved, exact.answer if exact is not None else "")


class Release(NamedTuple):
    """A release and the stacks that have it, the newest first."""

    version: str
    released: dt.date | None
    stacks: list[Lock]
    left_out: int
    tally: str


class ReleaseTurn(NamedTuple):
    """A variant whose outcome differs with the newer release."""

    point: TurningPoint
    before: str
    after: str
    everywhere: bool
    """Whether all judged stacks with one of the two releases show the same."""


class Step(NamedTuple):
    """Two neighbouring releases, compared on the two most similar stacks that have them."""

    older: str
    newer: str
    before: Lock
    after: Lock
    moved: Sequence[PackageMove]
    """The other packages that differ."""
    turns: list[ReleaseTurn]


class Behaviour(NamedTuple):
    """A cell that ends differently from one release of a package on, found by running both."""

    package: str
    release: str
    """The later of the two."""
    released: dt.date | None
    last: str
    """The release before; empty if the change is that the package is there."""
    cell: Cell
    """On the newer of the two stacks between which it was looked for."""
    was: str
    now: str
    doubt: str
    """What may be the cause instead."""
    alone: bool
    """Whether no other package has to move with it."""
    misuse: bool

    @property
    def kind(self) -> str:
        """In a word of maintainers. A misuse that trains is no better and no worse."""
        if self.misuse or TRAINS not in (self.was, self.now):
            return "changed"
        return "fixed" if self.now == TRAINS else "broke"


def behaviours(view: View) -> list[Behaviour]:
    """Return what is known exactly, each change once, the newest releases first."""
    found: dict[tuple[str, str, str, str], Behaviour] = {}
    for turning in view.table.turnings:
        scenario, variant, device = turning.cell.split("/")
        cell = Cell(stack=turning.stacks[1], scenario=scenario, variant=variant, device=device)
        row = view.row(cell.stack, (scenario, variant, device))
        for edge in turning.edges:
            if edge.several:
                continue
            up = edge.newer == edge.after
            was, now = edge.ends if up else edge.ends[::-1]
            each = Behaviour(
                package=edge.package,
                release=edge.newer,
                released=edge.after_released if up else edge.before_released,
                last=(edge.before if up else edge.after) or "",
                cell=cell,
                was=was.outcome,
                now=now.outcome,
                doubt=edge.doubt,
                alone=len(turning.edges) == 1,
                misuse=row is not None and row.role is Role.MISUSE,
            )
            found.setdefault((each.package, each.release, each.last, turning.cell), each)
    by_cell = sorted(found.values(), key=lambda each: (each.cell.scenario, each.cell.variant))
    return sorted(by_cell, key=lambda each: str(each.released or ""), reverse=True)


def package_pages(view: View) -> Iterator[tuple[str, bytes]]:
    """Yield the page of each main package, and of each other one that changed something."""
    by_kind = sorted(behaviours(view), key=lambda each: each.kind)
    exact = sorted(by_kind, key=lambda each: ranked(each.release), reverse=True)
    sections = [section for section in view.sections if not section.misuse]
    timed = dict.fromkeys(
        (row.scenario, row.stack)
        for row in view.table.rows
        if row.outcome == TRAINS and row.steps_per_s is not None
    )
    for name in dict.fromkeys((*SHOWN, *sorted({each.package for each in exact}))):
        releases = by_release(view, name)
        tale = Tale(view, name, exact)
        yield page(
            "package.html",
            f"packages/{name}.html",
            view=view,
            package=name,
            packages=SHOWN,
            grids=[grid(view, name, releases, section) for section in sections],
            stories=[story for section in sections for story in tale.stories(section)],
            several=len(view.devices) > 1,
            exact=[each for each in exact if each.package == name],
            releases=[
                release(view, name, version, locks) for version, locks in reversed(releases.items())
            ],
            steps=[
                step(view, name, older, newer)
                for older, newer in reversed(list(pairwise(releases.items())))
            ],
            without=[lock for lock in view.newest_first if name not in view.versions[lock.stack]],
            timed=timed_with(view, name, timed),
            asking=asking(view, name),
            pair=newest_pair(view, ran) if (ran := ran_with(view, name)) else None,
        )


def timed_with(view: View, name: str, timed: Iterable[tuple[str, str]]) -> list[str]:
    """Return the scenarios of which a variant was timed on a stack with a package.

    Args:
        view: The matrix.
        name: The package.
        timed: Each scenario with each stack on which a variant of it was timed.
    """
    stacks = {lock.stack for lock in view.table.dated if name in view.versions[lock.stack]}
    return list(dict.fromkeys(scenario for scenario, stack in timed if stack in stacks))


def asking(view: View, name: str) -> list[str]:
    """Return the scenarios with a variant that asks for a package by name."""
    lines = (line for section in view.sections for line in section.lines)
    found = (line.scenario for line in lines if name in names_of(needs(view, line.place)))
    return list(dict.fromkeys(found))


def release(view: View, name: str, version: str, locks: list[Lock]) -> Release:
    """Return a release with its stacks."""
    known = (each.released for lock in locks for each in lock.packages if each.name == name)
    rows = [row for lock in locks for row in view.cells.get(lock.stack, {}).values()]
    return Release(
        version, next(known, None), locks[:MOST_STACKS], len(locks[MOST_STACKS:]), tally(rows)
    )


def step(
    view: View, name: str, older: tuple[str, list[Lock]], newer: tuple[str, list[Lock]]
) -> Step:
    """Return what changes from one release to the next."""
    before, after = nearest(view, older[1], newer[1])
    moved = [each for each in view.moves.between(before.stack, after.stack) if each.name != name]
    turns = []
    for place, row in view.cells.get(after.stack, {}).items():
        was = view.row(before.stack, place)
        if was is None or None in (row.passed, was.passed) or not differ(was, row):
            continue
        point = TurningPoint(was, row)
        everywhere = unanimous(view, place, point, older[1], newer[1])
        turns.append(ReleaseTurn(point, shown(was).word, shown(row).word, everywhere))
    return Step(older[0], newer[0], before, after, moved, turns)


def unanimous(
    view: View, place: Place, point: TurningPoint, older: Sequence[Lock], newer: Sequence[Lock]
) -> bool:
    """Whether all judged stacks with one of the two releases have the outcomes of ``point``."""
    for expected, locks in ((point.before, older), (point.after, newer)):
        rows = (view.row(lock.stack, place) for lock in locks)
        if any(
            row is not None and row.passed is not None and differ(row, expected) for row in rows
        ):
            return False
    return True
