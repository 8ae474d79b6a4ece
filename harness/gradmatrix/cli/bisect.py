"""Which release did it? ``bisect`` looks for it between two sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from gradmatrix.cli.options import print_json
from gradmatrix.cli.progress import Display
from gradmatrix.cli.upgrade import own_scripts, what_moves
from gradmatrix.compare import upgrade
from gradmatrix.compare.bisect import Bisection
from gradmatrix.compare.sides import Reading
from gradmatrix.core.errors import UserError
from gradmatrix.core.text import counted, plain
from gradmatrix.measure.statistics import Key
from gradmatrix.run.lookup import select
from gradmatrix.run.scenarios import VARIANT

if TYPE_CHECKING:
    import argparse
    import datetime as dt
    from collections.abc import Iterator

    from rich.console import Console

    from gradmatrix.compare.resolution import Resolved
    from gradmatrix.core.model import Scenario
    from gradmatrix.judge.edge import Edge, End, Found
    from gradmatrix.run.project import Project


def bisect_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Find the release that changes a cell, and print it; 1 if both sides end in the same way."""
    scenario, key = chosen(options, project)
    with Display(console) as display:
        display.stage(plain(options.good), "resolving")
        good, bad = sides(options, project)
    tell = console.print if not options.json else (lambda *_, **__: None)
    for line in what_moves(good, bad):
        tell(Text(plain(line)), soft_wrap=True)
    with Display(console) as display:
        found = Bisection(
            project,
            good,
            bad,
            scenario,
            key,
            display,
            lambda line: tell(Text(plain(line), style="dim"), soft_wrap=True),
            only=options.package,
            noise=options.noise,
        ).run()
    if options.json:
        print_json(found)
    else:
        for line in answer(found):
            console.print(Text(plain(line)), soft_wrap=True)
    return 0 if found.edges else 1


def sides(options: argparse.Namespace, project: Project) -> tuple[Resolved, Resolved]:
    """Both sides, resolved."""
    try:
        return upgrade.resolved_sides(
            project,
            options.good,
            [options.bad],
            Reading(options.python),
            as_of=None,
            build=options.build,
        )
    except UserError as error:
        raise UserError(
            error.what.replace("--to ", "--bad "),
            cause=error.cause.replace("--to ", "--bad "),
            next_step=error.next_step.replace("--to ", "--bad "),
        ) from error


def chosen(options: argparse.Namespace, project: Project) -> tuple[Scenario, Key]:
    """The cell that is run: a variant of the matrix, or the user's own script."""
    if bool(options.cell) == bool(options.script):
        raise UserError(
            "It is not clear what to run." if options.cell else "Nothing says what to run.",
            cause="a bisection runs one cell, or one script of your own",
            next_step="gradmatrix bisect SCENARIO/VARIANT --good … --bad …, or --script train.py",
        )
    device = options.device or project.matrix.run.devices[0]
    if options.script:
        (script,) = own_scripts([options.script], None, project)
        return script, Key(script.name, VARIANT, device)
    select(project, scenario=[], cell=[options.cell], device=[device], fresh=False)
    name, _, variant = options.cell.partition("/")
    (scenario,) = (each for each in project.chosen_scenarios() if each.name == name)
    return scenario, Key(name, variant, device)


def answer(found: Found) -> Iterator[str]:
    """The answer for people."""
    yield ""
    if not found.edges:
        yield f"{found.cell} ends in the same way on both sides: {found.good.outcome}."
        yield from ending(found.good)
        return
    if len(found.edges) == 1:
        yield f"{found.cell} changes between {of_edge(found.edges[0])}."
    else:
        yield f"{found.cell} changes only if all of these packages move:"
        yield from (f"  between {of_edge(edge)}" for edge in found.edges)
    for edge in found.edges:
        yield from around(edge)
    for end in (found.good, found.bad):
        yield f"{end.name}: {end.outcome}"
        yield from ending(end)
    tried = counted(found.probes, "set")
    yield f"{tried} of packages ran; {counted(found.differing, 'package')} differ."
    if found.skipped:
        yield f"{counted(len(found.skipped), 'set')} could not be judged:"
        yield from (f"  {each.what}: {each.why}" for each in found.skipped)


def of_edge(edge: Edge) -> str:
    """Two releases with their days."""
    before = (
        f"{edge.package} {edge.before}{on(edge.before_released)}"
        if edge.before
        else f"a side without {edge.package}"
    )
    return f"{before} and {edge.after}{on(edge.after_released)}"


def on(day: dt.date | None) -> str:
    """A day in parentheses, if it is known."""
    return f" ({day})" if day else ""


def around(edge: Edge) -> Iterator[str]:
    """What ran on both sides of an edge, and what else differs there."""
    yield f"  {edge.before or 'without it'}: {edge.ends[0]}"
    yield f"  {edge.after}: {edge.ends[1]}"
    if edge.between:
        yield f"  It may be any of these, which could not be judged: {', '.join(edge.between)}."
    if edge.also:
        yield f"  Other packages that differ between these two: {', '.join(edge.also)}."
    else:
        yield "  All other packages are equal."


def ending(end: End) -> Iterator[str]:
    """The message and the diagnosis of a side."""
    lines = end.why or ((end.message.splitlines()[0],) if end.message else ())
    yield from (f"  {line}" for line in lines)
