"""The matrix: run, lock, show, publish, list and refresh it; run it as jobs on other machines."""

from __future__ import annotations

import datetime as dt
import os
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.text import Text

from gradmatrix.cli.documents import Differing, Isolation, ListedScenario, Listing
from gradmatrix.cli.history import judged_claims, newest_table
from gradmatrix.cli.options import (
    chosen_stacks,
    given_places,
    print_bytes,
    print_json,
    refuse_address,
    refuse_both,
    refuse_on_ray,
    warn,
    warn_and_code,
)
from gradmatrix.cli.progress import Display, show_fallen_behind, show_isolation, show_summary
from gradmatrix.cli.show_matrix import show_failures, show_matrix, show_overview, show_plan
from gradmatrix.core import files
from gradmatrix.core.errors import UserError
from gradmatrix.core.text import counted, plain
from gradmatrix.night import night
from gradmatrix.publish import publication
from gradmatrix.publish.formats import Json, Results
from gradmatrix.run import budget, bundle
from gradmatrix.run.ahead import Ahead, next_install
from gradmatrix.run.budget import Meter
from gradmatrix.run.lookup import expect, select
from gradmatrix.run.project import Project, by_date, find_checkout, same_verdict
from gradmatrix.run.ray import machines
from gradmatrix.run.refresh import refresh
from gradmatrix.run.stack import ThisMachine
from gradmatrix.stacks import environment
from gradmatrix.stacks.lock import CannotLock

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from gradmatrix.core.model import Lock, Stack
    from gradmatrix.run.plan import Selection
    from gradmatrix.run.refresh import News
    from gradmatrix.run.stack import StackRun

UNRESOLVED = 3
"""The exit code if a stack does not resolve: this is a result, not an error of this program."""


def run_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run stacks; the exit code is 1 if ``--strict`` finds a failure."""
    every = options.all or bool(options.budget and not options.stacks)
    stacks = chosen_stacks(project, options.stacks, everything=every)
    if options.budget:
        stacks = budget.ordered(project, stacks)
    selection = select(
        project,
        scenario=options.scenario,
        cell=options.cell,
        device=options.device,
        fresh=options.fresh,
        further=options.all or options.further,
    )
    refuse_address(options)
    if options.budget:
        refuse_on_ray(options, "--budget", "a budget counts what this machine uses")
    for stack in stacks:
        project.store.refuse_other_schema(stack.name)  # before hours of work, not after
    project.known_locks()  # the table at the end needs them all: an edited one is an error now
    try:
        missing = run_stacks(options, project, console, stacks, selection)
    finally:  # also if a later stack cannot be installed
        publication.publish(project.local)
    names = [stack.name for stack in stacks if stack.name not in missing]
    if options.json:
        print_table(project, names)
    elif not options.no_table:
        narrowed = bool(options.scenario or options.cell or options.device)
        show_results(
            project,
            console,
            names,
            selection if narrowed or options.strict else None,
            verbose=options.verbose,
        )
    failed = options.strict and any(
        record.passed is False and selection.has(cell)
        for cell, record in project.records_of(names).items()
    )
    code = warn_and_code(project, console, failed=failed)
    return unresolved(missing, stacks) or code


def run_stacks(
    options: argparse.Namespace,
    project: Project,
    console: Console,
    stacks: Sequence[Stack],
    selection: Selection,
) -> dict[str, CannotLock]:
    """Run stacks; return those that cannot be locked."""
    missing: dict[str, CannotLock] = {}
    meter = Meter.of(options.budget, project) if options.budget else None
    show_isolation(console, explain=options.explain)
    with Display(
        console, verbose=options.verbose, explain=options.explain, together=options.on is not None
    ) as display:
        ready = locked(project, stacks, display, missing, meter)
        dropping = (replace(run, drop=options.drop_environments) for run in ready)
        runs = taken(dropping, selection, meter)
        following = partial(next_install, project, stacks, selection, display)
        first = Ahead() if meter is not None else Ahead(following)  # a budget may end before
        with first, machines(options, project, ThisMachine(first)) as where:
            for lock, summary in where.executed(runs, selection):
                show_summary(console, summary)
                show_fallen_behind(console, project.fallen_behind(lock))
    if meter is not None:
        console.print(Text(f"{meter}"), soft_wrap=True)
    return missing


def locked(
    project: Project,
    stacks: Sequence[Stack],
    display: Display,
    missing: dict[str, CannotLock],
    meter: Meter | None,
) -> Iterator[StackRun]:
    """A run of each stack; those that cannot be locked are added to ``missing``."""
    for stack in stacks:
        if meter is not None and not meter.has_room(1, of=stack.name):
            continue
        if project.current_lock(stack) is None:
            display.stage(stack.name, "locking")
        try:
            yield project.stack_run(stack, display)
        except CannotLock as error:
            missing[stack.name] = error


def taken(
    runs: Iterable[StackRun], selection: Selection, meter: Meter | None
) -> Iterator[StackRun]:
    """The runs for which the budget has room."""
    for run in runs:
        if meter is None or meter.takes(run.stack.name, run.plan(selection)):
            yield run


def show_results(
    project: Project,
    console: Console,
    stacks: Sequence[str],
    selection: Selection | None = None,
    *,
    verbose: bool,
) -> None:
    """Print what trains on ``stacks``.

    With ``verbose`` every cell and every failure; with a ``selection`` the failures in it.
    """
    records = project.records_of(stacks)
    if verbose:
        show_matrix(console, project.published(records.values()), stacks)
    if verbose or selection is not None:
        asked = {cell: r for cell, r in records.items() if selection is None or selection.has(cell)}
        show_failures(console, asked)
    show_overview(
        console, records.values(), project.agreement(stacks), project.local.results, verbose=verbose
    )
    if project.has_sessions:
        text = "In a checkout, run gradmatrix X as: nox -s gradmatrix -- X"
        console.print(Text(text, style="dim"))


def lock_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Lock stacks; the exit code is 3 if one does not resolve."""
    refuse_both(options.stacks, everything=options.all)
    stacks = project.stacks_to_lock(options.stacks, everything=options.all)
    if not stacks:
        console.print("Every stack has a lock. To lock one again, name it: gradmatrix lock latest")
    failures = 0
    missing: dict[str, CannotLock] = {}
    for stack in stacks:
        try:
            lock = project.relock(stack)
        except CannotLock as error:
            missing[stack.name] = error
            continue
        failures += lock.failure is not None
        show_lock(project, console, lock)
    environment.pin_cpu_builds(project.known_locks(), project.locks_folder)
    return unresolved(missing, stacks) or (UNRESOLVED if failures else 0)


def show_lock(project: Project, console: Console, lock: Lock) -> None:
    """What was locked, or why not."""
    what = f"{len(lock.packages)} packages" if lock.failure is None else lock.failure.outcome
    console.print(Text(f"{lock.stack}: {what}, as of {lock.as_of}"), soft_wrap=True)
    show_fallen_behind(console, project.fallen_behind(lock))
    if lock.failure is not None:
        console.print(Text(plain(lock.failure.message)), soft_wrap=True)


def unresolved(missing: dict[str, CannotLock], stacks: Sequence[Stack]) -> int:
    """Print which stacks are ``missing`` after the others are done; return the exit code.

    Raises:
        CannotLock: if there is only one stack.
    """
    for error in missing.values():
        if len(stacks) == 1:
            raise error
        Console(stderr=True, highlight=False).print(
            Text(f"gradmatrix: {plain(str(error))}"), soft_wrap=True
        )
    return UNRESOLVED if missing else 0


def table_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Show what is recorded, and write it to results/local/."""
    for name in options.stacks:
        project.matrix.stack(name)
    publication.publish(project.local)
    names = options.stacks or [lock.stack for lock in by_date(project.known_locks())]
    recorded = {cell.stack for cell in project.records_of(names)}
    names = [name for name in names if name in recorded]
    if options.json:
        print_table(project, names)
    else:
        show_results(project, console, names, verbose=options.verbose)
    return warn_and_code(project, console, failed=False)


def print_table(project: Project, stacks: Sequence[str]) -> None:
    """Print what matrix.json has of some stacks."""
    print_bytes(b"".join(Json.pieces(Results(newest_table(project, stacks)))))


def publish_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Write the data files and the pages."""
    place = project.local if options.local else project
    written = publication.publish(place, site=True, base_url=options.base_url)
    what = "written" if written else "up to date"
    console.print(Text(f"{what}: {place.results / 'index.html'}"), soft_wrap=True)
    return warn_and_code(project, console, failed=False)


def isolation_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Compare forks with fresh processes; the exit code is 1 if two verdicts differ."""
    selection = select(
        project, scenario=options.scenario, cell=options.cell, device=options.device, fresh=True
    )
    different = []
    compared = 0
    for stack in chosen_stacks(project, options.stacks, everything=False):
        with Display(console) as display:
            pairs = project.compare_isolation(stack, selection, display)
        for forked, fresh in pairs:
            if not same_verdict(forked, fresh):
                different.append(
                    Differing(cell=forked.cell, fork=forked.outcome, fresh=fresh.outcome)
                )
                console.print(
                    Text(f"{forked.cell}: fork {forked.outcome}, fresh process {fresh.outcome}")
                )
        compared += len(pairs)
        console.print(Text(f"{stack.name}: {counted(len(pairs), 'cell')} compared"))
    console.print(f"verdicts that differ between a fork and a fresh process: {len(different)}")
    if options.json:
        print_json(Isolation(cells=compared, different=tuple(different)))
    return 1 if different else 0


def list_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """List stacks, scenarios and variants."""
    if options.json:
        scenarios = tuple(
            ListedScenario(name=each.name, title=each.title, variants=each.variants)
            for each in project.chosen_scenarios()
        )
        print_json(Listing(stacks=project.matrix.stacks, scenarios=scenarios))
        return 0
    for stack in project.matrix.stacks:
        core = "  core" if stack.core else ""
        console.print(
            Text(f"{stack.name:22} as of {stack.as_of}{core}  {stack.summary}"), soft_wrap=True
        )
    show_plan(console, {s.name: s for s in project.chosen_scenarios()})
    return 0


def refresh_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Say what is new; with ``--check`` the exit code is 1 if there is anything."""
    news = refresh(project, dt.datetime.now(dt.UTC).date(), write=not options.check)
    if options.json:
        print_json(news)
    else:
        for line in news_lines(news, given_places(options), wrote=not options.check):
            console.print(Text(plain(line)), soft_wrap=True)
    return 1 if options.check and news.anything else 0


def news_lines(news: News, same: str = "", *, wrote: bool) -> Iterator[str]:
    """The news as sentences; ``same`` are the options that the next command needs."""
    if not news.anything:
        but = ", as far as the notes below allow" if news.notices else ""
        yield f"The matrix has everything that the package index has on {news.day}{but}."
    for release in news.releases:
        known = (
            f"the newest locked one is {release.locked}"
            if release.locked
            else "no lock has the package"
        )
        yield f"release   {release.package} {release.version} of {release.released}: {known}"
    yield from (f"added     {name}" for name in news.added)
    yield from (f"removed   {name}: its records are kept" for name in news.removed)
    yield from (f"unlocked  {name}" for name in news.unlocked)
    yield from (
        f"table     {place} is new, or changed since the index was read" for place in news.unread
    )
    for yanked in news.yanked:
        then = (
            "the next lock will not have it"
            if yanked.moves
            else "its lock stays: it is dated, or asks for this release"
        )
        yield f"yanked    {yanked.package} {yanked.version} in {yanked.stack}: {then}"
    yield from (f"combined  {each.table}: {each.coverage}" for each in news.combined)
    yield from (f"note: {notice}" for notice in news.notices)
    if news.suggestion:
        yield f"To keep a release as a stack, add to matrix.toml:\n\n{news.suggestion}"
    yield from next_steps(news, same, wrote=wrote)


def next_steps(news: News, same: str, *, wrote: bool) -> Iterator[str]:
    """The command to run next, if any."""
    if (news.unread or news.added or news.removed) and not wrote:
        yield f"next: gradmatrix refresh{same}, which writes the generated stacks"
    elif news.added or news.unlocked:
        yield f"next: gradmatrix lock{same}, which locks the stacks without a lock"
    elif news.releases or any(yanked.moves for yanked in news.yanked):
        yield f"next: gradmatrix lock{same} NAME, for a stack as of today, such as latest"


def update_command(options: argparse.Namespace, _project: Project, console: Console) -> int:
    """Fetch the published matrix, if it is newer than the one that is used here."""
    checkout = find_checkout(Path.cwd())
    if checkout is not None:
        raise UserError(
            f"The matrix of the checkout in {checkout} is used here.",
            cause="update renews the matrix that is used where there is no matrix.toml",
            next_step="git pull renews a checkout; or run the command in another folder",
        )
    url = options.url or bundle.page()
    if url is None:
        raise UserError(
            "It is not known where the matrix is published.",
            cause="this gradmatrix was not built in a clone of a repository on GitHub",
            next_step="name the page of the matrix: gradmatrix update --url URL",
        )
    done = bundle.update(url, accept=lambda root: judged_claims(Project.at(root)))
    if options.json:
        print_json(done)
        return 0
    more = f"The page has that of {done.offered:%Y-%m-%d}."
    if done.is_new:
        more = "" if done.before is None else f"It was that of {done.before:%Y-%m-%d} before."
    used = f"The matrix published on {bundle.dated(done.used)}, is used now."
    console.print(f"{used} {more}".rstrip(), soft_wrap=True)
    return 0


def shards_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Plan jobs: the matrix goes to the standard output, everything else to the error stream."""
    notes = Console(stderr=True, highlight=False)
    stacks = stacks_of_sessions(options, project)
    with Display(notes) as display:
        cells, missing = night.planned(
            project, stacks, display, since_published=options.since_published
        )
        if options.settled is not None:
            apart = Project.at(
                project.root, matrix_file=project.matrix_file, results=options.settled
            )
            night.settle(apart, cells, display)
    plan = night.shards(cells, options.jobs)
    if options.output is not None:
        document = msgspec.json.format(msgspec.json.encode(plan), indent=1)
        files.write_atomically(options.output, document + b"\n")
    for shard in plan.shards:
        notes.print(Text(f"{shard.name}: {len(shard.cells)} cells"), soft_wrap=True)
    mark = "::warning::" if os.environ.get("GITHUB_ACTIONS") else "warning: "
    for error in missing:  # the other stacks' night goes on; GitHub shows this line above the run
        left_out = f"{mark}left out: {plain(error.what)} {plain(error.cause)}"
        notes.print(Text(left_out, style="yellow"), soft_wrap=True)
    total = sum(len(shard.cells) for shard in plan.shards)
    kept = len(cells) - total - plan.settled
    notes.print(
        f"{counted(len(plan.shards), 'job')} for {counted(total, 'cell')}; {kept} are recorded, "
        f"{plan.settled} need no run"
    )
    console.out(msgspec.json.encode(night.github_matrix(plan.shards)).decode(), highlight=False)
    return warn_and_code(project, notes, failed=False)


def shard_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run one job. A cell that fails is a result, not a failure of the job."""
    shard = night.read(options.file).named(options.name)
    with Display(console, verbose=options.verbose, explain=options.explain) as display:
        for summary in night.run_shard(project, shard, display):
            show_summary(console, summary)
    return warn_and_code(project, console, failed=False)


def merge_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Add records of other machines, and say which were refused."""
    plan = night.read(options.plan) if options.plan else None
    with Display(console) as display:
        found, new = night.merge(project, options.folders, display, plan)
    warn(found.problems, console)
    console.print(f"{len(found.records):,} cells found, {new:,} records were new")
    return warn_and_code(project, console, failed=False)


def dry_run_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Rehearse a night; the exit code is 1 if the two matrices differ."""
    known = {stack.name: stack for stack in stacks_of_sessions(options, project)}
    for name in options.stacks:
        expect(name, "session of a stack", set(known))
    stacks = [known[name] for name in options.stacks]
    with (
        tempfile.TemporaryDirectory(prefix="gradmatrix-") as folder,
        Display(console) as display,
    ):
        apart = replace(project, results=options.results or Path(folder))
        rehearsed = night.rehearse(apart, stacks, display, jobs=options.jobs)
    for shard in rehearsed.shards:
        console.print(Text(f"{shard.name}: {len(shard.cells)} cells"), soft_wrap=True)
    for difference in rehearsed.differences:
        console.print(Text(plain(difference), style="red"), soft_wrap=True)
    different = len(rehearsed.differences)
    jobs = counted(len(rehearsed.shards), "job")
    text = (
        f"{rehearsed.cells} cells were published twice. {rehearsed.ran} of them ran directly and "
        f"again in {jobs}; {different} differ."
    )
    console.print(text, soft_wrap=True)
    return 1 if different else 0


def stacks_of_sessions(options: argparse.Namespace, project: Project) -> list[Stack]:
    """The stacks of nox's sessions."""
    try:
        sessions = (
            sys.stdin.buffer.read()
            if options.sessions == "-"
            else Path(options.sessions).read_bytes()
        )
    except OSError as error:
        raise UserError(
            f"The sessions cannot be read: {error}.",
            cause="nox did not write this file yet, or it lies elsewhere",
            next_step="nox -t all --list --json > sessions.json",
        ) from error
    return [project.matrix.stack(name) for name in night.stacks_of(sessions)]
