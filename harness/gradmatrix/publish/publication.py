"""Publishing: write ``results/`` from the newest record of every cell.

First each stack is published by itself: its records, its history and its evidence pages. Stacks do
not depend on each other, so several processes can share a big matrix. The records of 100,000 cells
would not fit into memory at once. Then the files are written that show all stacks.

A publication is remembered with the stamps of all files that it read and wrote. It is repeated only
if one of them has changed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.compare import flips, history
from gradmatrix.core.errors import UserError
from gradmatrix.core.files import (
    NOT_READABLE,
    PARTIAL,
    held,
    write_atomically,
    write_in_pieces,
)
from gradmatrix.core.model import Cell
from gradmatrix.core.observation import Frozen
from gradmatrix.judge.relations import judged
from gradmatrix.publish import measurements
from gradmatrix.publish.claims.claims import load_claims
from gradmatrix.publish.claims.judge import judge_all
from gradmatrix.publish.feeds import feed
from gradmatrix.publish.formats import FORMATS, Results, headline, write_block
from gradmatrix.publish.rows import Row, Table, build_of, last_measured, rows_of, tabulated
from gradmatrix.publish.speed import Runs
from gradmatrix.publish.standing import new_records, standing
from gradmatrix.run.confirmed import FOLDER as CONFIRMED
from gradmatrix.run.confirmed import as_recorded
from gradmatrix.run.project import PACKAGE, Project, by_date, of_locks, of_matrix
from gradmatrix.stacks import generated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.context import BaseContext

    from gradmatrix.core.model import Lock
    from gradmatrix.stacks.pairwise import Chosen

BIG_BYTES = 32 * 2**20
"""With fewer bytes of records, one process does all: a second one needs half a second to start."""
MOST_PROCESSES = 61
"""The most processes that Windows can wait for."""
Paths = tuple[Path, Path, Path, Path]
"""The four paths of a project, as it takes them: from the checkout to the folder for work."""
_PROJECTS: dict[Paths, Project] = {}
"""The projects of this process, so that it reads scenarios and matrix.toml only once."""
PAGES = "site/pages.txt"
"""The list of all written pages. The next publication deletes those that it does not write."""
FOLDERS = (
    "answers",
    "cells",
    "stacks",
    "scenarios",
    "packages",
    "site",
    "records",
    "confirmed",
    "locks",
    "history",
)
"""The folders in ``results/`` that a publication writes to."""
Stamps = dict[str, tuple[int, int]]
"""The time of the last change and the size of each file."""


@dataclass(frozen=True)
class Gathered:
    """All published stacks together."""

    table: Table
    pages: list[str]
    """Paths in results/ of the pages that were written so far."""


def publish(project: Project, *, site: bool = False, base_url: str | None = None) -> bool:
    """Write ``results/`` from the newest record of every cell.

    Only one process publishes at a time. A second one waits, and then has the records of both.

    Args:
        project: The checkout.
        site: Whether the pages are written too.
        base_url: Where results/ is served, for the addresses in the feed.

    Returns:
        Whether anything was written: False if everything was up to date.

    Raises:
        UserError: if a lock is missing, or its two files do not belong together.
    """
    with held(project.work / "publish.lock"), without_collector():
        if is_current(project, site=site, base_url=base_url):
            return False
        if site:
            refuse_incomplete(project)
        for left in leftovers(project.results):
            left.unlink(missing_ok=True)
        made_of = stamps(sources(project))
        gathered = gather(project, site=site)
        measurements.prune(project.results / measurements.FOLDER, dt.datetime.now(dt.UTC))
        table = gathered.table
        claims = load_claims(project.root, project.known_scenarios())
        results = Results(table, judge_all(claims, table), chosen(project))
        by_stack = partial(write_by_stack, project.results, results, site=site)
        with beside(by_stack, apart=is_big(project)):
            if project.results == project.root / "results":
                core = {stack.name for stack in project.matrix.stacks if stack.core}
                write_block(project.root / "README.md", "headline", headline(table, core))
            if site:
                write_site(project, results, gathered.pages, base_url)
        remember(project, made_of, site=site, base_url=base_url)
    return True


def chosen(project: Project) -> list[Chosen]:
    """Return the stacks of each [generate.pairwise] table that matrix.toml still has."""
    known = {stack.name for stack in project.matrix.stacks}
    found = generated.chosen_in(project.generated_file)
    return [each for each in found if {stack.name for stack in each.stacks} <= known]


def in_order(project: Project) -> tuple[Lock, ...]:
    """Return the locks by date. Stacks of [generate.pairwise] come first: pages show them last.

    Those of them without a record are left out: a pair that is covered needs no column.
    """
    combined, ran = project.combined, project.store.stacks
    shown = (
        lock for lock in project.known_locks() if lock.stack not in combined or lock.stack in ran
    )
    return tuple(sorted(by_date(shown), key=lambda lock: lock.stack not in combined))


def refuse_incomplete(project: Project) -> None:
    """UserError if a stack has records and no lock: the pages would not show it."""
    locked = {lock.stack for lock in project.known_locks()}
    missing = [
        stack.name for stack in project.matrix.stacks if stack.name in project.store.stacks - locked
    ]
    if missing:
        names = ", ".join(f"{name}.json" for name in missing)
        raise UserError(
            f"{project.locks_folder} lacks {names}: nothing was published.",
            cause="the stack has records, and its lock was deleted or never made",
            next_step=f"git checkout results/locks, or gradmatrix lock {' '.join(missing)}",
        )
    if not locked:
        raise UserError(
            "There is nothing to publish.",
            cause=f"no stack of {project.matrix_file.name} has a lock in {project.locks_folder}",
            next_step="run a stack first: gradmatrix run",
        )


def gather(project: Project, *, site: bool) -> Gathered:
    """Publish every stack, and return them all together."""
    locks = in_order(project)
    rows: list[Row] = []
    builds: dict[str, str] = {}
    measured: dict[str, dt.datetime] = {}
    runs: dict[Cell, Runs] = {}
    pages: list[str] = []
    problems = dict.fromkeys(project.store.problems)
    for lock, each in zip(locks, columns(project, locks, site=site), strict=True):
        rows += each.rows
        pages += each.pages
        runs.update(each.runs)
        problems.update(dict.fromkeys((*project.store.problems, *each.problems)))
        if each.build is not None:
            builds[lock.stack] = each.build
        if each.measured is not None:
            measured[lock.stack] = each.measured
    project.store.problems[:] = problems
    scenarios = {s.name: s for s in project.chosen_scenarios()}
    exact = flips.load(project.published_results)
    table = tabulated(locks, scenarios, rows, builds, exact, measured=measured)
    return Gathered(replace(table, runs=runs, combined=project.combined), pages)


@contextmanager
def without_collector() -> Iterator[None]:
    """Switch the garbage collector off: it has much to search here, and next to nothing to find."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def beside(work: Callable[[], None], *, apart: bool) -> Iterator[None]:
    """Do ``work`` before the body.

    If ``apart`` and a fork is safe, a fork does it while the body runs.
    """
    if not (apart and can_fork()):
        work()
        yield
        return
    fork = get_context("fork").Process(target=work)
    fork.start()
    try:
        yield
    finally:
        fork.join()
    if fork.exitcode:
        work()  # raises the same error in this process


def write_data(folder: Path, results: Results) -> None:
    """Write every file of ``FORMATS`` atomically."""
    for name, each in FORMATS.items():
        write_in_pieces(folder / name, each.pieces(results))


def write_by_stack(folder: Path, results: Results, *, site: bool) -> None:
    """Write every file of ``FORMATS`` and the page of each stack: about half of all work."""
    write_data(folder, results)
    if site:
        from gradmatrix.publish.site.pages import stack_pages
        from gradmatrix.publish.site.tables import View

        for _ in write(folder, stack_pages(View(results.table))):
            pass


def write_site(
    project: Project, results: Results, pages: Iterable[str], base_url: str | None
) -> None:
    """Write the pages that show all stacks, and the feed. Delete pages that are no longer needed.

    Args:
        project: The checkout.
        results: What is published.
        pages: The paths of the pages that were written with each stack.
        base_url: Where results/ is served, for the addresses in the feed.
    """
    from gradmatrix.publish.site.pages import stack_path
    from gradmatrix.publish.site.site import site_files

    table = results.table
    if project.locks_folder.parent != project.results:
        copy_locks(project, table)
    known = history.load(project.history_folder)
    files = chain(
        site_files(results, history=known, source_of=sources_of(project, table)),
        [("feed.xml", feed(known, base_url))],
    )
    stacks = map(stack_path, table.locks)
    written = sorted({*pages, *stacks, *write(project.results, files)})
    for path in pages_in(project.results).difference(written):
        (project.results / path).unlink(missing_ok=True)
    write_atomically(project.results / PAGES, "".join(f"{path}\n" for path in written).encode())


def sources_of(project: Project, table: Table) -> dict[str, str]:
    """Return the text of each scenario, by name."""
    return {
        s.name: (project.root / s.path).read_text(encoding="utf-8")
        for s in table.scenarios.values()
    }


def copy_locks(project: Project, table: Table) -> None:
    """Copy the locks to another folder of results, because the pages link to them."""
    for lock in table.locks:
        for name in (f"{lock.stack}.json", f"{lock.stack}.txt"):
            with contextlib.suppress(FileNotFoundError):  # an unresolved stack has no text
                content = (project.locks_folder / name).read_bytes()
                write_atomically(project.results / "locks" / name, content)


class Column(Frozen, frozen=True):
    """One published stack: a column of the matrix."""

    rows: tuple[Row, ...]
    build: str | None
    """The build of torch of its newest cell; None if nothing ran."""
    measured: dt.datetime | None
    """When a cell ran last."""
    pages: tuple[str, ...]
    """Paths in results/ that were written."""
    runs: tuple[tuple[Cell, Runs], ...]
    """What the runs of each timed cell measured."""
    problems: tuple[str, ...] = ()
    """What could not be read, one sentence each."""


@dataclass(frozen=True)
class Task:
    """What another process needs to know to publish one stack."""

    paths: Paths
    stack: str
    now: dt.datetime
    """When this publication began: the same moment for all stacks."""
    site: bool


def columns(project: Project, locks: Sequence[Lock], *, site: bool) -> Iterator[Column]:
    """Publish each stack and yield its column, in the order of ``locks``."""
    now = dt.datetime.now(dt.UTC)
    if not is_big(project) or len(locks) == 1:
        yield from (publish_column(project, lock, now=now, site=site) for lock in locks)
        return
    paths = (project.root, project.matrix_file, project.results, project.work)
    tasks = [Task(paths, lock.stack, now, site) for lock in locks]
    # forks inherit what is imported and read before
    if site:
        import gradmatrix.publish.site.evidence  # noqa: F401
    _PROJECTS[paths] = project
    project.known_scenarios()
    with ProcessPoolExecutor(processes(), mp_context=context(), initializer=gc.disable) as pool:
        decoder = msgspec.msgpack.Decoder(Column)
        yield from map(
            decoder.decode, pool.map(in_process, tasks, chunksize=max(1, len(tasks) // 64))
        )


def is_big(project: Project) -> bool:
    """Whether there are so many records that further processes save time."""
    folders = (project.store.journal, project.store.published)
    return (
        sum(path.stat().st_size for folder in folders for path in folder.glob("*.jsonl"))
        >= BIG_BYTES
    )


def context() -> BaseContext:
    """Return how processes are started: by fork if that is safe; a fork imports nothing."""
    return get_context("fork" if can_fork() else "spawn")


def can_fork() -> bool:
    """Whether a fork is safe: on Linux, in a process with a single thread."""
    return sys.platform == "linux" and len(list(Path("/proc/self/task").iterdir())) == 1


def processes() -> int:
    """Return the number of processes to start: one for each core."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(cores, MOST_PROCESSES)


def in_process(task: Task) -> bytes:
    """Publish the stack of a task and return its encoded column."""
    project = project_of(task.paths)
    lock = next(lock for lock in project.known_locks((task.stack,)))
    published = publish_column(project, lock, now=task.now, site=task.site)
    return msgspec.msgpack.encode(
        msgspec.structs.replace(published, problems=tuple(project.store.problems))
    )


def project_of(paths: Paths) -> Project:
    """Return the project with these paths."""
    if paths not in _PROJECTS:
        _PROJECTS[paths] = Project(*paths)
    return _PROJECTS[paths]


def publish_column(project: Project, lock: Lock, *, now: dt.datetime, site: bool) -> Column:
    """Publish one stack: write its records, its history, and with ``site`` its evidence page.

    A stack of pre-releases has no history: they are replaced by releases, and never regress.
    """
    known = project.known_scenarios()
    folder = project.results / measurements.FOLDER
    newest = project.store.of_stack(lock.stack)
    published = project.store.as_published
    project.store.refuse_other_schema(lock.stack)
    records = of_matrix(judged(newest.values(), known), known)
    if not project.is_local:
        if not lock.prereleases:
            update = history.update(
                project.history_folder,
                lock,
                records,
                published_before=published,
                complete=not project.store.is_damaged,
                now=now,
            )
            project.store.problems += update.problems
        ran = new_records(records, published)
        measurements.keep(folder, lock.stack, ran, now)
        if ran:
            records = standing(published, records, known)
        project.store.publish(lock.stack, records)
    scenarios = {scenario.name: scenario for scenario in project.chosen_scenarios()}
    # other records are kept but not shown
    records = of_matrix(of_locks(records, [lock]), scenarios)
    rows = tuple(rows_of(records, scenarios))
    pages: list[str] = []
    if site:
        from gradmatrix.publish.site.evidence import evidence_page

        evidence = [evidence_page(lock, scenarios, records, rows)] if records else []
        pages = list(write(project.results, evidence))
    return Column(
        rows=rows,
        build=build_of(records),
        measured=last_measured(records),
        pages=tuple(pages),
        runs=tuple(measurements.runs_of(folder, lock, map(as_recorded, records))),
    )


def write(folder: Path, files: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    """Write each file atomically, and yield its path."""
    for path, content in files:
        write_atomically(folder / path, content)
        yield path


class Remembered(Frozen, frozen=True):
    """A publication, with all files that it read or wrote."""

    stamps: Stamps
    base_url: str | None = None


def is_current(project: Project, *, site: bool = False, base_url: str | None = None) -> bool:
    """Whether all published files exist, and none of them nor any of their sources has changed."""
    try:
        known = msgspec.json.decode(_path(project, site=site).read_bytes(), type=Remembered)
    except (FileNotFoundError, *NOT_READABLE):
        return False
    return known == Remembered(
        stamps=stamps([*outputs(project, site=site), *sources(project)]), base_url=base_url
    )


def remember(project: Project, made_of: Stamps, *, site: bool, base_url: str | None) -> None:
    """Remember a publication. ``made_of`` are the stamps of the sources before they were read."""
    written = stamps([*outputs(project, site=site), *kept_records(project)])
    done = Remembered(stamps=made_of | written, base_url=base_url)
    write_atomically(_path(project, site=site), msgspec.json.encode(done))


def outputs(project: Project, *, site: bool) -> list[Path]:
    """Return the files that a publication writes and does not read."""
    names = [*FORMATS, *([*sorted(pages_in(project.results)), PAGES] if site else ())]
    readme = [project.root / "README.md"] if project.results == project.root / "results" else []
    return [*(project.results / name for name in names), *readme]


def pages_in(results: Path) -> set[str]:
    """Return the paths of the pages of the last publication. Only these are ever deleted."""
    try:
        listed = (results / PAGES).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return set()
    # only paths inside results/
    return {path for path in listed if not {"", ".", ".."} & {*path.split("/")}}


def sources(project: Project) -> list[Path]:
    """Return the files that a publication is made from, with our own code."""
    folders = [project.store.journal, project.locks_folder, project.root / "scenarios"]
    read = [path for folder in folders for path in folder.glob("*.*")]
    scripts = [project.root / script.path for script in project.scripts]
    ours = [path for path in PACKAGE.rglob("*.*") if path.suffix != ".pyc"]
    tables = [project.matrix_file, flips.path_of(project.published_results)]
    return [*tables, *read, *scripts, *kept_records(project), *ours]


def leftovers(results: Path) -> list[Path]:
    """Return the half-written files that a killed publication left behind."""
    days = (results / measurements.FOLDER).glob("*")
    folders = [results, *(results / name for name in FOLDERS), results / "history" / "locks", *days]
    found = [path for folder in folders for path in folder.glob("*.partial")]
    return [path for path in found if PARTIAL.fullmatch(path.name)]


def kept_records(project: Project) -> list[Path]:
    """Return the files that publishing both reads and writes."""
    confirmed = (project.store.published.parent / CONFIRMED).glob("*.json")
    records = project.store.published.glob("*.jsonl")
    measured = (project.results / measurements.FOLDER).rglob("*.parquet")
    return [*records, *confirmed, *measured, *project.history_folder.rglob("*.jsonl")]


def stamps(paths: Iterable[Path]) -> Stamps:
    """Return the stamp of each file that exists."""
    found = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another process may be replacing it
            status = path.stat()
            found[str(path)] = (status.st_mtime_ns, status.st_size)
    return found


def _path(project: Project, *, site: bool) -> Path:
    return project.work / ("site.json" if site else "published.json")
