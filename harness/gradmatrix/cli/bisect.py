"""Which release did it? ``bisect`` looks for it between two sides."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.text import Text

from gradmatrix.cli.options import print_json, refuse_address, refuse_on_ray
from gradmatrix.cli.progress import Display
from gradmatrix.cli.upgrade import own_scripts, refuse_in_place, what_moves
from gradmatrix.compare import flip_search, upgrade
from gradmatrix.compare.bisect import Bisection, Shared, at_release, base_for
from gradmatrix.compare.flips import load as load_flips
from gradmatrix.compare.flips import read as read_flips
from gradmatrix.compare.paired import Metric, Paired
from gradmatrix.compare.resolution import resolved
from gradmatrix.compare.sides import Reading, parse_side, text_of
from gradmatrix.core.errors import UserError, refuse_unwritable
from gradmatrix.core.files import write_atomically
from gradmatrix.core.text import counted, plain
from gradmatrix.measure.statistics import Key
from gradmatrix.publish.bisection import answer, as_html, as_issue, as_markdown
from gradmatrix.run.lookup import select
from gradmatrix.run.ray import machines
from gradmatrix.run.scenarios import VARIANT
from gradmatrix.trace import capsule

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rich.console import Console

    from gradmatrix.compare.bisect import Outlook
    from gradmatrix.compare.resolution import Resolved
    from gradmatrix.core.model import Scenario
    from gradmatrix.judge.edge import Found
    from gradmatrix.run.project import Project

MOST_LINES = 12
"""The most packages that a dry run lists."""


def bisect_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Find the release that changes a cell, and print it; 1 if both sides end in the same way."""
    refuse(options)
    scenarios, key, along = chosen(options, project)
    with Display(console) as display:
        display.stage(plain(options.good or options.between[0]), "resolving")
        good, bad = sides(options, project)
    refuse_in_place(options, good, bad)
    known = load_flips(project.published_results)
    tell = console.print if not options.json else (lambda *_, **__: None)
    for line in what_moves(good, bad):
        tell(Text(plain(line)), soft_wrap=True)
    with Display(console, together=options.on is not None) as display:
        search = Bisection(
            project,
            good,
            bad,
            scenarios,
            key,
            display,
            lambda line: tell(Text(plain(line), style="dim"), soft_wrap=True),
            only=options.package,
            noise=options.noise,
            all=options.all,
            along=along,
            shared=Shared(known=known.history(str(key), good.lock, bad.lock)),
            paired=Paired(Metric(options.metric), options.budget) if options.metric else None,
        )
        if options.dry_run:
            for line in prospect(search.outlook()):
                console.print(Text(line), soft_wrap=True)
            return 0
        with machines(options, project, upgrade.THIS) as where:
            search.machines, search.spare = where, where.spare
            found = search.run()
    folder = keep(search, found)
    if options.json:
        print_json(found)
        return 0 if found.edges else 1
    console.print()
    for line in answer(found):
        console.print(Text(plain(line)), soft_wrap=True)
    console.print(Text(f"kept: {folder}"), style="dim", soft_wrap=True)
    capsules = capsules_of(search)
    for target, content in (
        (options.markdown, as_markdown(found, capsules).encode()),
        (options.html, as_html(found, capsules)),
    ):
        if target is not None:
            write_atomically(target, content)
    return 0 if found.edges else 1


def flips_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Print which release is behind each change of the matrix; look for them within a budget."""
    refuse_address(options)
    if options.budget is None:
        refuse_on_ray(options, "flips without --budget", "it only lists what is known")
    for name in options.pair or ():
        project.matrix.stack(name)
    found = flip_search.current(project, tuple(options.pair or ()))
    if options.take is not None:
        found = flip_search.taken(project, found, read_flips(options.take))
    if options.budget is not None:
        tell = console.print if not options.json else (lambda *_, **__: None)
        with (
            Display(console, together=options.on is not None) as display,
            machines(options, project, upgrade.THIS) as where,
        ):
            found = flip_search.Search(
                project,
                display,
                lambda line: tell(Text(plain(line), style="dim"), soft_wrap=True),
                options.budget,
                where,
            ).run(found)
    if options.json:
        print_json(found)
        return 0
    for stacks, turns in groupby(found.turns, key=lambda turn: turn.stacks):
        console.print(Text(" → ".join(stacks), style="bold"), soft_wrap=True)
        for turn in turns:
            outcomes = " → ".join(turn.outcomes)
            line = f"  {turn.cell}: {outcomes}: {turn.answer}"
            console.print(Text(plain(line)), soft_wrap=True)
    open_ones = sum(turn.is_open for turn in found.turns)
    exact = sum(turn.is_exact for turn in found.turns)
    console.print(f"{exact} of {len(found.turns)} changes are exact, {open_ones} are open.")
    return 0


def refuse(options: argparse.Namespace) -> None:
    """UserError if the options contradict each other."""
    for target in (options.markdown, options.html):
        refuse_unwritable(target)
    refuse_address(options)
    if options.metric:
        refuse_on_ray(options, "--metric", "both sides are measured together on one machine")
    if options.between and (options.bad or len(options.package) != 1):
        raise UserError(
            "--between needs one --package, and no --bad.",
            cause="it names two releases of one package",
            next_step="gradmatrix bisect SCENARIO/VARIANT --package trl --between 0.14 0.30",
        )
    if options.between and len(set(options.between)) == 1:
        raise UserError(
            f"--between {options.between[0]} {options.between[1]} names one release twice.",
            cause="nothing is between a release and itself",
            next_step="name two releases",
        )
    if not options.between and not (options.good and options.bad):
        raise UserError(
            "It is not clear between which sides to look.",
            cause="--good or --bad is missing",
            next_step="give both, or --package NAME --between OLD NEW",
        )
    if options.all + bool(options.noise) + bool(options.metric) > 1:
        raise UserError(
            "Only one of --all, --noise and --metric can be given.",
            cause="each change that chance makes would be an answer",
            next_step="leave the others out",
        )


def sides(options: argparse.Namespace, project: Project) -> tuple[Resolved, Resolved]:
    """Both sides, resolved: those that are named, or one side with both releases."""
    reading = Reading(options.python)
    if options.between:
        (package,) = options.package
        word = options.good or base_for(package, options.between[0], project)
        side = upgrade.allowing(parse_side(word, project, reading), options.build)
        folder = upgrade.folder_of(project) / "locks"
        base = resolved(side, project.index, folder, project.locks_folder)
        one, other = (at_release(base, package, each, project) for each in options.between)
        return one, other
    try:
        return upgrade.resolved_sides(
            project, options.good, [options.bad], reading, as_of=None, build=options.build
        )
    except UserError as error:
        raise UserError(
            error.what.replace("--to ", "--bad "),
            cause=error.cause.replace("--to ", "--bad "),
            next_step=error.next_step.replace("--to ", "--bad "),
        ) from error


def prospect(outlook: Outlook) -> Iterator[str]:
    """What a bisection may take."""
    for unit, count in outlook.lines[:MOST_LINES]:
        yield f"  {unit.shown}: {counted(count, 'release')} between the two sides"
    if outlook.lines[MOST_LINES:]:
        yield f"  and {counted(len(outlook.lines) - MOST_LINES, 'package')} more"
    yield f"At most {counted(outlook.probes, 'set')} of packages if one package is to blame."
    yield f"At most {outlook.download_bytes / 1e9:.1f} GB to download if nothing is cached."
    yield f"About {counted(outlook.minutes, 'minute')}, without downloads."


def keep(search: Bisection, found: Found) -> Path:
    """Keep the answer, the capsules and the issue; return their folder."""
    name = f"bisect {found.cell} from {found.good.name} to {found.bad.name}"
    folder = upgrade.report_folder(search.project, name, search.good, search.bad)
    capsules = capsules_of(search)
    files = {"report.json": msgspec.json.encode(found).decode()} | capsules
    if found.edges:
        files["issue.md"] = as_issue(found, capsules)
    for each, text in files.items():
        write_atomically(folder / each, text.encode())
    return folder


def capsules_of(search: Bisection) -> dict[str, str]:
    """A script for each side of the last edge, by file name; none for scripts of the user."""
    if not search.around:
        return {}
    capsules = {}
    (scenario,) = (each for each in search.scenarios if each.name == search.key.scenario)
    for name, probe in zip(("before.py", "after.py"), search.around[-1], strict=True):
        if probe.record is None or probe.resolved is None or scenario.arguments is not None:
            continue
        with suppress(UserError):  # not every failure can be shown by one script
            capsules[name] = capsule.write(
                probe.record,
                probe.resolved.lock,
                text_of(probe.resolved.lock, probe.resolved.locks),
                scenario,
                Path(scenario.path).read_text(encoding="utf-8"),
                file=name,
            )
    return capsules


def chosen(
    options: argparse.Namespace, project: Project
) -> tuple[tuple[Scenario, ...], Key, list[Key]]:
    """The cell that is run, a variant of the matrix or the user's script; what runs along."""
    if bool(options.cell) == bool(options.script):
        raise UserError(
            "It is not clear what to run." if options.cell else "Nothing says what to run.",
            cause="a bisection runs one cell, or one script of your own",
            next_step="gradmatrix bisect SCENARIO/VARIANT --good … --bad …, or --script train.py",
        )
    device = options.device or project.matrix.run.devices[0]
    if options.script:
        (script,) = own_scripts([options.script], None, project)
        return (script,), Key(script.name, VARIANT, device), []
    selection = select(
        project, scenario=[], cell=[options.cell, *options.along], device=[device], fresh=False
    )
    first, *along = (
        Key(name, variant, device)
        for name, _, variant in (each.partition("/") for each in [options.cell, *options.along])
    )
    names = {name for name, _ in selection.variants or ()}
    scenarios = tuple(each for each in project.chosen_scenarios() if each.name in names)
    return scenarios, first, along
