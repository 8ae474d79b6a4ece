"""May I upgrade? ``upgrade`` runs both sides, ``compare`` reads two runs that exist."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from gradmatrix.cli.options import print_bytes, refuse_address, refuse_on_ray, warn
from gradmatrix.cli.progress import Display
from gradmatrix.cli.show_comparison import show_comparison
from gradmatrix.compare import upgrade
from gradmatrix.compare.bisect import Bisection, Shared, bisected, regressed
from gradmatrix.compare.comparison import EXIT_CODES, Results, Verdict, compare_stacks
from gradmatrix.compare.recorded import paired, read
from gradmatrix.compare.sides import Reading
from gradmatrix.compare.upgrade import Plan, Timing
from gradmatrix.core.errors import UserError, did_you_mean, refuse_unwritable
from gradmatrix.core.files import write_atomically
from gradmatrix.core.text import one_line, plain
from gradmatrix.judge.versions import packages_moved
from gradmatrix.publish.comparison import move
from gradmatrix.publish.reports import Form, as_schema, reports
from gradmatrix.run.lookup import expect, select
from gradmatrix.run.own_scripts import as_table, free_name, named, package_folders, project_of
from gradmatrix.run.plan import Selection
from gradmatrix.run.ray import machines
from gradmatrix.run.scenarios import VARIANT, load_scripts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from gradmatrix.compare.comparison import Comparison
    from gradmatrix.compare.resolution import Resolved
    from gradmatrix.core.model import Scenario
    from gradmatrix.run.project import Project
    from gradmatrix.run.stack import Machines
    from gradmatrix.stacks.config import Script


STANDARD_OUTPUT = "-"
SAME = "Both sides have the same records: a run is compared with itself."
MOST_MOVES = 12
"""The most packages that are listed before the run of those that no side requires by name."""


def compare_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Compare the records of two runs; nothing is run."""
    refuse_reports(options)
    baseline, candidate = read(options.baseline, project), read(options.candidate, project)
    pairs, notes = paired(baseline, candidate, tuple(options.stacks) if options.stacks else None)
    if options.scenario:
        refuse_unknown(options.scenario, pairs)
        names = set(options.scenario)
        pairs = [(of_scenarios(one, names), of_scenarios(other, names)) for one, other in pairs]
    scenarios = {
        each.name: each
        for each in (*project.chosen_scenarios(), *project.known_scenarios().values())
    }
    if all(one.records == other.records for one, other in pairs):
        notes = (*notes, SAME)
    comparison = compare_stacks((baseline.name, candidate.name), pairs, scenarios, notes=notes)
    report(options, comparison, console)
    warn([*baseline.problems, *candidate.problems])
    return comparison.exit_code


def report(options: argparse.Namespace, comparison: Comparison, console: Console) -> None:
    """Print a comparison and write its reports.

    If a report goes to the standard output, nothing else is printed there.
    """
    asked = targets(options)
    written = list(reports(comparison, asked))
    if not quiet(options):
        show_comparison(console, comparison)  # first: a full disk must not lose the answer
    for each in written:
        write(each.target, each.content)
    if options.json_schema is not None:
        write(options.json_schema, as_schema())
    if quiet(options):
        return
    for form, target in asked.items():
        console.print(Text(f"{form.value}: {target}"), style="dim", soft_wrap=True)


def targets(options: argparse.Namespace) -> dict[Form, str]:
    """The forms that were asked for."""
    return {form: target for form in Form if (target := getattr(options, form.value)) is not None}


def refuse_reports(options: argparse.Namespace) -> None:
    """UserError if a report cannot be written. It is checked before anything runs."""
    files = [*targets(options).values(), *([options.json_schema] if options.json_schema else [])]
    if files.count(STANDARD_OUTPUT) > 1:
        raise UserError(
            "Two reports cannot both go to the standard output.",
            cause="nothing would show where the first ends and the second begins",
            next_step="write one of them to a file",
        )
    for target in files:
        refuse_unwritable(Path(target) if target != STANDARD_OUTPUT else None)


def write(target: str, content: bytes) -> None:
    """Write a report to a file in one step, or to the standard output."""
    if target == STANDARD_OUTPUT:
        print_bytes(content)
    else:
        write_atomically(Path(target), content)


def refuse_unknown(asked: Sequence[str], pairs: Sequence[tuple[Results, Results]]) -> None:
    """UserError with a suggestion if no run has a scenario that was asked for."""
    known = {key.scenario for pair in pairs for side in pair for key in side.records}
    for name in asked:
        expect(name, "recorded scenario", sorted(known))


def of_scenarios(side: Results, names: set[str]) -> Results:
    """A side with only the cells of these scenarios."""
    records = {key: record for key, record in side.records.items() if key.scenario in names}
    return replace(side, records=records)


def own_scripts(
    given: Sequence[str], directory: Path | None, project: Project
) -> tuple[Scenario, ...]:
    """The scripts of the command line as scenarios, named after their files.

    The packages of a script's project count as parts of it: it may import them.

    Raises:
        UserError: if a script is not a file, or ``directory`` is not a folder.
    """
    if directory is not None and not (given and directory.is_dir()):
        raise UserError(
            f"--directory {directory} cannot be used.",
            cause="there is no such folder"
            if given
            else "it is the folder in which scripts run, and no --script is given",
            next_step="name a folder, and a script: --script 'train.py --epochs 1'",
        )
    tables: list[Script] = []
    for text in given:
        path, arguments = named(text)
        taken = {each.name for each in tables} | set(project.known_scenarios())
        place = None if directory is None else str(directory.absolute())
        packages = map(str, package_folders(path, project_of(path)))
        name = free_name(path, taken)
        tables.append(
            as_table(name, path, arguments, directory=place, packages=packages, project=project)
        )
    return load_scripts(project.matrix_file, tables, project.known_scenarios())


def upgrade_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run and compare two sides; the exit code is that of the comparison's verdict."""
    refuse_reports(options)
    refuse_address(options)
    if options.keep:
        refuse_on_ray(options, "--keep", "the environments are on the nodes")
    plan = planned(options, project)
    with machines(options, project, upgrade.THIS) as where:
        baseline, candidate, comparison = compared(options, project, console, plan, where)
    own = [each.name for each in plan.scenarios if each.arguments is not None]
    parts = [*options.scenario, *options.cell, *options.device, *own]
    path = upgrade.keep_report(project, baseline, candidate, comparison, parts)
    try:
        report(options, comparison, console)
    except OSError as error:
        raise UserError(
            f"{comparison.headline} But a report cannot be written: {error}.",
            cause="its folder cannot be written to, or the disk is full",
            next_step=f"The comparison is kept in {path}. Run the command again with another "
            "file: no cell runs again.",
        ) from error
    if not quiet(options):
        console.print(Text(f"kept: {path}"), style="dim", soft_wrap=True)
    if options.speed_optional and comparison.verdict is Verdict.SPEED_UNKNOWN:
        return EXIT_CODES[Verdict.SAFE]
    return comparison.exit_code


def compared(
    options: argparse.Namespace,
    project: Project,
    console: Console,
    plan: Plan,
    where: Machines,
) -> tuple[Resolved, Resolved, Comparison]:
    """Both sides, and what became of their cells."""
    reading = Reading(options.python, tuple(options.extra), tuple(options.group))
    with Display(console) as display:
        display.stage(plain(options.baseline), "resolving")
        baseline, candidate = upgrade.resolved_sides(
            project,
            options.baseline,
            options.to,
            reading,
            as_of=options.as_of,
            build=options.build,
        )
    refuse_in_place(options, baseline, candidate)
    if not quiet(options):
        for line in what_moves(baseline, candidate):
            console.print(Text(plain(line)), soft_wrap=True)
    with Display(console, together=options.on is not None) as display:
        comparison = upgrade.upgrade(
            project, baseline, candidate, replace(plan, machines=where), display
        )
        if options.bisect:
            keys, shared = regressed(comparison), Shared()
            comparison = bisected(
                comparison,
                keys,
                lambda key: Bisection(
                    project,
                    baseline,
                    candidate,
                    plan.scenarios,
                    key,
                    display,
                    partial(say, options, console),
                    along=keys,
                    shared=shared,
                    machines=where,
                    spare=where.spare,
                ),
            )
    return baseline, candidate, comparison


def refuse_in_place(options: argparse.Namespace, *sides: Resolved) -> None:
    """UserError if a side is an environment of this machine and cells run on nodes."""
    for each in sides:
        if each.side.interpreter is not None:
            refuse_on_ray(options, each.side.name, "this environment is on this machine only")


def say(options: argparse.Namespace, console: Console, line: str) -> None:
    """Print a line about a bisection."""
    if not quiet(options):
        console.print(Text(plain(line), style="dim"), soft_wrap=True)


def quiet(options: argparse.Namespace) -> bool:
    """Whether the standard output is for a report alone."""
    return STANDARD_OUTPUT in {*targets(options).values(), options.json_schema}


def planned(options: argparse.Namespace, project: Project) -> Plan:
    """What the options ask to run; UserError if they contradict each other."""
    own = own_scripts(options.script, options.directory, project)
    chosen = project.chosen_scenarios()
    selection = select(
        project,
        scenario=options.scenario,
        cell=options.cell,
        device=options.device,
        fresh=options.fresh,
        further=bool(own),
    )
    if own and not (options.scenario or options.cell):
        chosen = ()
    elif own:
        names = (selection.scenarios or {name for name, _ in selection.variants or ()}) | {
            each.name for each in own
        }
        pairs = selection.variants and selection.variants | {(each.name, VARIANT) for each in own}
        selection = Selection(frozenset(names), pairs, selection.devices, fresh=selection.fresh)
    scenarios = (*chosen, *own)
    return Plan(
        scenarios=scenarios,
        selection=selection,
        repeats=options.repeats,
        timing=timing(options, scenarios),
        keep=options.keep,
    )


def timing(options: argparse.Namespace, scenarios: Sequence[Scenario]) -> Timing | None:
    """What the options ask to measure; None for nothing."""
    known = {
        f"{each.name}/{variant.name}": (each.name, variant.name)
        for each in scenarios
        for variant in each.variants
    }
    for word in options.time:
        if word not in known:
            raise UserError(
                f"--time {word}: there is no such cell in this run.",
                cause=did_you_mean(word, known),
                next_step="write SCENARIO/VARIANT as gradmatrix list shows it, or SCRIPT/script",
            )
    if options.timing == "none" and not options.time:
        return None
    return Timing(
        budget_s=options.budget,
        margin=options.margin,
        everything=options.timing == "all",
        cells=frozenset(known[word] for word in options.time),
    )


def what_moves(baseline: Resolved, candidate: Resolved) -> Iterator[str]:
    """The two sides, and which packages differ between their locks."""
    yield f"{baseline.side.name} → {candidate.side.name}"
    for each in (baseline, candidate):
        yield from (f"  note: {one_line(notice)}" for notice in each.side.notices)
    moves = packages_moved(baseline.lock, candidate.lock, (baseline.contents, candidate.contents))
    if not moves:
        yield "Nothing differs: both sides have the same packages."
        return
    direct = [each for each in moves if each.direct]
    others = [each for each in moves if not each.direct]
    differ = "1 package differs" if len(moves) == 1 else f"{len(moves)} packages differ"
    yield f"{differ}, {len(direct)} of them required by name:"
    width = max(len(each.name) for each in moves)
    yield from (f"  {each.name:{width}}  {move(each)}" for each in direct)
    yield from (
        f"  {each.name:{width}}  {move(each)}  (came with others)" for each in others[:MOST_MOVES]
    )
    if others[MOST_MOVES:]:
        yield f"  and {len(others) - MOST_MOVES} more that came with others"
